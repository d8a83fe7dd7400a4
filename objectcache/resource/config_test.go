// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"net/http"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache/resource"
)

// The http.Transport of a client takes small frames, also where the standard library allows large ones, and is that of
// no other client.
func TestConfigLimitsFrames(t *testing.T) {
	config := &rest.Config{Host: "https://192.0.2.1"}
	transports := map[*http.Transport]bool{}
	for range 2 {
		within, err := rest.TransportFor(resource.ConfigFor(config))
		if err != nil {
			t.Fatal(err)
		}
		for {
			wrapper, ok := within.(utilnet.RoundTripperWrapper)
			if !ok {
				break
			}
			within = wrapper.WrappedRoundTripper()
		}
		base := within.(*http.Transport)
		transports[base] = true
		if base.HTTP2 == nil || base.HTTP2.MaxReadFrameSize != 16384 {
			t.Errorf("got %+v, want frames of 16 KiB at most", base.HTTP2)
		}
	}
	if len(transports) != 2 {
		t.Error("two clients share a transport")
	}
}
