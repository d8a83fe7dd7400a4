// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// NewClient returns a client as an agent should have it.
//
//   - It speaks protobuf, which is smaller and faster to decode, and understands JSON.
//   - It has no QPS limit. Each object takes a request when it is first referenced, and client-go's default
//     of 5 a second would make the pods of a node that starts wait for minutes. The same goes for the time
//     after a restart of the server.
//
// The configuration is not changed.
func NewClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(rest.AddUserAgent(config, "refwatch-nodeagent"))
}
