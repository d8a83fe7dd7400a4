// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/examples/internal/steps"
)

// checkInterval is how often a check is repeated, also without a change of certificates: a status and the number of
// streams may change alone.
const checkInterval = 20 * time.Millisecond

// repeated returns a check that calls look until it succeeds. If ctx ends first, the check returns the last error.
func (d *demo) repeated(look steps.Check) steps.Check {
	return func(ctx context.Context) (string, error) {
		again := time.NewTicker(checkInterval)
		defer again.Stop()
		for {
			changed := d.controller.Changed() // before the look, so that no change is missed
			observed, err := look(ctx)
			if err == nil {
				return observed, nil
			}
			select {
			case <-changed:
			case <-again.C:
			case <-ctx.Done():
				return "", errors.Join(context.Cause(ctx), err)
			}
		}
	}
}

// presents checks that clients of the host get the newest certificate of a Secret, and that nothing is reported.
func (d *demo) presents(host, secret string) steps.Check { return d.keeps(host, secret, "") }

// keeps checks that clients of the host get the newest good certificate of a Secret, while something is reported.
func (d *demo) keeps(host, secret, reported string) steps.Check {
	return d.repeated(func(ctx context.Context) (string, error) {
		want := d.serials[secret]
		got, err := d.get(ctx, host)
		if err == nil && got != want {
			err = fmt.Errorf("%s: got serial number %d, want %d", host, got, want)
		}
		if err != nil {
			return "", err
		}
		text, err := d.reported(host, reported)
		return fmt.Sprintf("%s: serial number %d, of Secret %s%s", host, got, secret, text), err
	})
}

// refuses checks that clients of the host get the alert unrecognized_name, while something is reported.
func (d *demo) refuses(host, reported string) steps.Check {
	return d.repeated(func(ctx context.Context) (string, error) {
		if got, err := d.get(ctx, host); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			return "", fmt.Errorf("%s: got serial number %d and error %w, want the alert unrecognized_name", host, got, err)
		}
		text, err := d.reported(host, reported)
		return host + ": TLS alert unrecognized_name" + text, err
	})
}

// reported checks that the status of a host has an error with a text, or none if that is empty.
func (d *demo) reported(host, want string) (string, error) {
	status, ok := d.controller.HostStatus(host)
	switch {
	case status.Err == nil && want == "":
		return "", nil
	case !ok:
		return "", fmt.Errorf("%s: it has no status, want %q", host, want)
	case status.Err == nil:
		return "", fmt.Errorf("%s: the status has no error, want %q", host, want)
	case want == "" || !strings.Contains(status.Err.Error(), want):
		return "", fmt.Errorf("%s: the status is %w, want %q", host, status.Err, want)
	}
	return "; reported: " + status.Err.Error(), nil
}

// handshakes checks that many clients of the host get a certificate.
func (d *demo) handshakes(host string, n int) steps.Check {
	return func(ctx context.Context) (string, error) {
		var failed atomic.Int64
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range n / 4 {
					if _, err := d.get(ctx, host); err != nil {
						failed.Add(1)
					}
				}
			})
		}
		clients.Wait()
		if failed.Load() > 0 {
			return "", fmt.Errorf("%s: %d of %d handshakes failed", host, failed.Load(), n)
		}
		return fmt.Sprintf("%s: %d handshakes, none failed", host, n), nil
	}
}

// watches checks how many watches of a Secret are open.
func (d *demo) watches(namespace, name string, want int) steps.Check {
	return d.repeated(func(context.Context) (string, error) {
		got := d.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name})
		if got != want {
			return "", fmt.Errorf("watches of Secret %s/%s: got %d, want %d", namespace, name, got, want)
		}
		return fmt.Sprintf("server: open watches of Secret %s/%s: %d", namespace, name, got), nil
	})
}

// get sends a request to a host, in a connection of its own, and returns the serial number of the certificate.
func (d *demo) get(ctx context.Context, host string) (serial int64, err error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: d.authority.Pool(), MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", d.address.String())
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.TLS.PeerCertificates[0].SerialNumber.Int64(), errors.Join(err, response.Body.Close())
}
