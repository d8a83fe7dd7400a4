// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
)

// FuzzDecode decodes any file, validates it, and asks for its feature gates. What was decoded
// is the same again when it is written in JSON and decoded.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "nodeName: worker\n", "tmpfs: {size: 1Gi}\n", "tmpfs: {size: -1}\n", "featureGates: {ImmutableEphemeralVolumes: true}\n",
		"bindAddress: 127.0.0.1:1\n", "logging: {verbosity: 4}\n", "nodeName: a\nnodeName: b\n", "rootDir: &a [*a]\n", "a: &a {<<: *a}\n", "---\n---\n"} {
		f.Add([]byte(header + text))
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"apiVersion":"nodeagent.refwatch.dev/v1alpha1","kind":"NodeAgentConfiguration","tmpfs":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data)
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want a configuration or an error", c, err)
		}
		if err != nil {
			return
		}
		errs := Validate(c)
		if _, err := c.Gate(); err != nil && len(errs) == 0 {
			t.Errorf("Gate: got %v for a valid configuration", err)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(text)
		if err != nil || !equality.Semantic.DeepEqual(again, c) {
			t.Fatalf("decoded again from %s: got %+v and %v, want %+v", text, again, err, c)
		}
		if changed := Changed(c, again); len(changed) > 0 {
			t.Errorf("Changed: got %v, want none", slices.Clip(changed))
		}
	})
}
