// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache/resource"
)

// ClientFor returns a clientset for the config that [resource.ConfigFor] returns. It also
// sends protobuf. It returns an error for a nil config, and those of client-go.
func ClientFor(config *rest.Config) (kubernetes.Interface, error) {
	if config == nil {
		return nil, errors.New("new client: the config is nil: pass that of the program")
	}
	config = resource.ConfigFor(config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return client, nil
}
