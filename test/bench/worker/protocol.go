// SPDX-License-Identifier: Apache-2.0

// Package worker is the process that a contender runs in. It reads one request per line of its input, as JSON, and
// answers each with one line of its output. It ends with its input, so that it never outlives the driver.
//
// The first request is [OpStart]. Requests are answered in order, one at a time.
package worker

import (
	"encoding/json"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/bench/workload"
)

// The requests, each with the type of its arguments and of its result.
const (
	OpStart      = "start"      // Start, nothing
	OpLoad       = "load"       // nothing, Loaded: register all pods, and get every secret until it is there
	OpMemory     = "memory"     // nothing, Memory, after several garbage collections
	OpUnregister = "unregister" // nothing, nothing: unregister all pods
	OpFirstGet   = "first-get"  // int, []float64: milliseconds of registering one secret and getting it
	OpGet        = "get"        // int, Costs: the argument is the number of calls
	OpRegister   = "register"   // RegisterArgs, Registered: needs no server, and no start
	OpUpdate     = "update"     // UpdateArgs, Updated
	OpVerify     = "verify"     // []Edition, nothing: get until each is that edition
	OpCPU        = "cpu"        // nothing, float64: seconds of CPU used so far
	OpStreams    = "streams"    // nothing, Sample, as counted now
	OpRecord     = "record"     // nothing, nothing: sample the streams from now on
	OpRecorded   = "recorded"   // nothing, []Sample, and no more samples are taken
)

// Request is a line of a worker's input.
type Request struct {
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Response is a line of a worker's output.
type Response struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Start says what to run.
type Start struct {
	Contender   string       `json:"contender"`
	Credentials Credentials  `json:"credentials"`
	Set         workload.Set `json:"set"`
	// Follow has the contender deliver changes, for OpUpdate.
	Follow bool `json:"follow,omitempty"`
	// CountStreams counts the requests and the open streams, at a small cost for each.
	CountStreams bool `json:"countStreams,omitempty"`
	// SecretsPerPod is how many secrets a pod references.
	SecretsPerPod int `json:"secretsPerPod"`
}

// Credentials are what a client configuration needs. They go through the worker's input, where nobody else looks.
type Credentials struct {
	Host        string `json:"host"`
	CA          []byte `json:"ca"`
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
}

// CredentialsOf are those of a configuration with a client certificate.
func CredentialsOf(config *rest.Config) Credentials {
	return Credentials{config.Host, config.CAData, config.CertData, config.KeyData}
}

// config is as every contender gets it: protobuf, and no limit of requests per second.
func (c Credentials) config() *rest.Config {
	return &rest.Config{
		Host:            c.Host,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA, CertData: c.Certificate, KeyData: c.Key},
		QPS:             -1,
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}
}

// Loaded tells of a cold start.
type Loaded struct {
	RegisterSeconds float64 `json:"registerSeconds"`
	// SyncSeconds is from before the first pod was registered until the last secret was got.
	SyncSeconds float64 `json:"syncSeconds"`
	// Failed counts Gets. Each was made again until it worked.
	Failed int `json:"failed"`
}

// Memory is what the worker's process takes.
type Memory struct {
	HeapBytes      uint64 `json:"heapBytes"`      // allocated
	HeapInUseBytes uint64 `json:"heapInUseBytes"` // with the gaps between
	StackBytes     uint64 `json:"stackBytes"`     // in use
	Goroutines     int    `json:"goroutines"`
}

// Bytes are those allocated on the heap, and those of the stacks.
func (m Memory) Bytes() float64 { return float64(m.HeapBytes + m.StackBytes) }

// InUseBytes are those of the heap's parts in use, and those of the stacks.
func (m Memory) InUseBytes() float64 { return float64(m.HeapInUseBytes + m.StackBytes) }

// Cost is that of one call.
type Cost struct {
	Nanoseconds float64 `json:"nanoseconds"`
	Bytes       float64 `json:"bytes"`
	Allocs      float64 `json:"allocs"`
}

// Costs are those of a Get from one goroutine, and from one per CPU.
type Costs struct {
	Alone    Cost `json:"alone"`
	AllCores Cost `json:"allCores"`
}

// Registered are the costs of RegisterPod and UnregisterPod together, nil for a contender without such a part.
type Registered struct {
	OverNothing   *Cost `json:"overNothing,omitempty"`
	OverIdleStore *Cost `json:"overIdleStore,omitempty"`
}

// Updated are the milliseconds of each update until it was seen, counted from before it was sent and from the
// server's response. The latter is negative where the update was seen before the response.
type Updated struct {
	GetSinceSent        []float64 `json:"getSinceSent"`
	GetSinceResponse    []float64 `json:"getSinceResponse"`
	ChangeSinceSent     []float64 `json:"changeSinceSent,omitempty"`
	ChangeSinceResponse []float64 `json:"changeSinceResponse,omitempty"`
}

// Edition is what a secret must hold.
type Edition struct {
	Name    string `json:"name"`
	Edition int64  `json:"edition"`
}

// Sample is what has been counted at one time.
type Sample struct {
	UnixMillis int64 `json:"t"`
	Open       int64 `json:"open"`     // streams open now
	Requests   int64 `json:"requests"` // sent so far, whatever became of them
	Dials      int64 `json:"dials"`    // begun so far
}
