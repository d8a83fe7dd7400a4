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

// etcdAdvertised is the advertised client URL of etcd. It must have a host and a port, and is not used.
const etcdAdvertised = "http://etcd.invalid:2379"

// etcdCompacted is the gRPC code OutOfRange, which etcd returns for a revision that is already compacted.
const etcdCompacted = 11

// etcd is an etcd server that listens on a socket in the cluster's folder. The folder has mode 0700.
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

// args returns the arguments of a single member that does not sync its files: tests do not need the data later.
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

// ready returns an error until etcd has elected itself leader.
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

// revision returns etcd's revision, which grows with every write. Kubernetes uses it as the resource version.
func (e *etcd) revision(ctx context.Context) (string, error) {
	var response struct {
		Header struct{ Revision string }
	}
	// Any read returns it. This one reads a key that cannot exist. In JSON, keys are base64 and numbers are strings.
	request := map[string]string{"key": "AA=="}
	err := e.call(ctx, http.MethodPost, "/v3/kv/range", request, &response)
	return response.Header.Revision, err
}

// compact removes all versions before the revision, and returns when that is done.
func (e *etcd) compact(ctx context.Context, revision string) error {
	request := map[string]any{"revision": revision, "physical": true}
	return e.call(ctx, http.MethodPost, "/v3/kv/compaction", request, nil)
}

// put writes a value to a key. In JSON both are base64.
func (e *etcd) put(ctx context.Context, key string, value []byte) error {
	return e.call(ctx, http.MethodPost, "/v3/kv/put", map[string][]byte{"key": []byte(key), "value": value}, nil)
}

// remove removes a key.
func (e *etcd) remove(ctx context.Context, key string) error {
	return e.call(ctx, http.MethodPost, "/v3/kv/deleterange", map[string][]byte{"key": []byte(key)}, nil)
}

// etcdError is an error answer of etcd. https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
type etcdError struct {
	Code    int
	Message string
}

func (e *etcdError) Error() string { return e.Message }

// call sends a request to etcd's JSON gateway, and decodes the answer into response unless that is nil.
func (e *etcd) call(ctx context.Context, method, path string, request, response any) error {
	status, content, err := e.send(ctx, method, path, request)
	switch {
	case err != nil:
	case status != http.StatusOK:
		refused := &etcdError{Message: http.StatusText(status)}
		_ = json.Unmarshal(content, refused) // if it is not JSON, the message is the status
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
