// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// memoryHost is the host of a server in memory.
const memoryHost = "apiserver.test"

// URL returns the base URL of the server. In memory, only the Dial of [Server.Config] resolves its host.
func (s *Server) URL() string {
	switch {
	case !s.options.InMemory:
		return "https://" + s.listener.Addr().String()
	case s.tls != nil:
		return "https://" + memoryHost
	}
	return "http://" + memoryHost
}

// Config returns a new client configuration, with the rights that [Server.Authorize] leaves. The caller owns it and may
// change it, for instance its ContentType. QPS has client-go's default.
func (s *Server) Config() *rest.Config {
	config := &rest.Config{Host: s.URL(), BearerToken: s.options.Token}
	if memory, ok := s.listener.(*memoryListener); ok {
		config.Dial = memory.Dial
	}
	if s.tls != nil {
		config.CAData = s.tls.caPEM()
	}
	return config
}

// Client returns a clientset that uses protobuf and has no QPS limit. It is the same at every call.
func (s *Server) Client() kubernetes.Interface { return s.client }

func (s *Server) newClient() (kubernetes.Interface, error) {
	config := s.Config()
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

// WriteKubeconfig writes a kubeconfig for kubectl to path. Its mode is 0600, because it holds the token. It returns an
// error for an in-memory server, which another process cannot reach.
func (s *Server) WriteKubeconfig(path string) error {
	if s.options.InMemory {
		return errors.New("apiserver: no kubeconfig for a server in memory: set Options.InMemory to false")
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: s.URL(), CertificateAuthorityData: s.tls.caPEM()}
	config.AuthInfos[userName] = &clientcmdapi.AuthInfo{Token: s.options.Token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: userName}
	config.CurrentContext = "test"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	// WriteFile does not change the mode of an existing file.
	return os.Chmod(path, 0o600)
}
