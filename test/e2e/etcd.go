// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
)

// etcdAdvertised is what etcd tells others to reach it by. It wants a host and a port, and nobody asks.
const etcdAdvertised = "http://etcd.invalid:2379"

// etcdCompacted is the gRPC code, OutOfRange, with which etcd refuses to compact twice at one revision.
const etcdCompacted = 11

// etcd is reached through a socket in the cluster's folder, which only its owner may enter.
type etcd struct {
	socket string
	data   string // its data folder
	client *http.Client
}

func newEtcd(dir string) *etcd {
	e := &etcd{socket: filepath.Join(dir, "etcd.sock"), data: filepath.Join(dir, "etcd.data")}
	e.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.socket)
		},
		DisableKeepAlives: true,
	}}
	return e
}

func (e *etcd) url() string { return "unix://" + e.socket }

// args are those of a single member that trusts its disk: tests throw the data away.
func (e *etcd) args() []string {
	const peer = "http://127.0.0.1:0" // any port: there are no peers
	return []string{
		"--name=e2e",
		"--data-dir=" + e.data,
		"--listen-client-urls=" + e.url(),
		"--advertise-client-urls=" + etcdAdvertised,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=e2e=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

// ready fails until etcd has a leader, which is itself.
func (e *etcd) ready(ctx context.Context) error {
	var health struct{ Health, Reason string }
	if err := e.call(ctx, http.MethodGet, "/health", nil, &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("etcd is not healthy: %s", health.Reason)
	}
	return nil
}

// revision counts every write to etcd. It is what Kubernetes calls the resource version.
func (e *etcd) revision(ctx context.Context) (string, error) {
	var response struct {
		Header struct{ Revision string }
	}
	// Any read does: this one is of the one key that cannot exist. JSON carries keys in base64, numbers as text.
	request := map[string]string{"key": "AA=="}
	err := e.call(ctx, http.MethodPost, "/v3/kv/range", request, &response)
	return response.Header.Revision, err
}

// compact makes etcd forget all that was before the revision, and waits until it has.
func (e *etcd) compact(ctx context.Context, revision string) error {
	request := map[string]any{"revision": revision, "physical": true}
	return e.call(ctx, http.MethodPost, "/v3/kv/compaction", request, nil)
}

// put writes a value to a key. JSON carries both in base64.
func (e *etcd) put(ctx context.Context, key string, value []byte) error {
	return e.call(ctx, http.MethodPost, "/v3/kv/put", map[string][]byte{"key": []byte(key), "value": value}, nil)
}

// etcdError is an answer other than success. https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
type etcdError struct {
	Code    int
	Message string
}

func (e *etcdError) Error() string { return e.Message }

// call sends a request to etcd's gateway from JSON to gRPC, and reads its answer into response unless that is nil.
func (e *etcd) call(ctx context.Context, method, path string, request, response any) error {
	status, content, err := e.send(ctx, method, path, request)
	switch {
	case err != nil:
	case status != http.StatusOK:
		refused := &etcdError{Message: http.StatusText(status)}
		_ = json.Unmarshal(content, refused) // what is no JSON leaves the status to tell
		err = refused
	case response != nil:
		err = json.Unmarshal(content, response)
	}
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	return nil
}

func (e *etcd) send(ctx context.Context, method, path string, request any) (status int, content []byte, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://etcd"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err = io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}
