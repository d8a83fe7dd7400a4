// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// NodeAgentConfiguration is the configuration of the node agent. Each field has a flag, which overrides the file.
type NodeAgentConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Kubeconfig is the path of a kubeconfig file. A relative one is resolved against the working folder of the agent,
	// not against the folder of the configuration file. Default: "", the service account of the agent's pod.
	Kubeconfig string `json:"kubeconfig"`
	// NodeName is the node whose volumes are written. Required.
	NodeName string `json:"nodeName"`
	// RootDir is the folder for the volumes. A relative one is resolved as for Kubeconfig. Required.
	RootDir string `json:"rootDir"`
	// BindAddress is the IP address and port for health checks, metrics and debug pages. They have no authentication.
	// "" or "0" turns them off. Default: "127.0.0.1:10270".
	BindAddress string `json:"bindAddress"`
	// Tmpfs keeps volumes in memory.
	Tmpfs TmpfsConfiguration `json:"tmpfs"`
	// FeatureGates turns refwatch's feature gates on or off. Default: the defaults of package featuregates.
	FeatureGates map[string]bool `json:"featureGates"`
	// Logging is the configuration of the log, as in every Kubernetes component. Verbosity may be changed at run time.
	Logging logsapi.LoggingConfiguration `json:"logging"`
}

// TmpfsConfiguration configures volumes in memory.
type TmpfsConfiguration struct {
	// Enabled mounts a tmpfs on each secret, projected and downwardAPI volume, as kubelet does. It needs Linux and
	// CAP_SYS_ADMIN. Default: false, the files of all volumes are in the file system of RootDir.
	Enabled bool `json:"enabled"`
	// Size is the most that one volume may hold, in bytes. An update needs room for the old and the new version. A
	// volume that is mounted keeps its size. Default: 32Mi.
	Size resource.QuantityValue `json:"size"`
}

// Default returns a configuration with all defaults. The required fields are empty.
func Default() *NodeAgentConfiguration {
	c := &NodeAgentConfiguration{
		TypeMeta:    metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: kind},
		BindAddress: "127.0.0.1:10270",
		Tmpfs:       TmpfsConfiguration{Size: resource.QuantityValue{Quantity: resource.MustParse("32Mi")}},
	}
	logsapi.SetRecommendedLoggingConfiguration(&c.Logging)
	return c
}

// DeepCopyObject implements [runtime.Object].
func (c *NodeAgentConfiguration) DeepCopyObject() runtime.Object {
	out := *c
	out.Tmpfs.Size = *c.Tmpfs.Size.DeepCopy()
	out.FeatureGates = maps.Clone(c.FeatureGates)
	c.Logging.DeepCopyInto(&out.Logging)
	return &out
}
