// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const kind = "NodeAgentConfiguration"

var groupVersion = schema.GroupVersion{Group: "nodeagent.refwatch.dev", Version: "v1alpha1"}

// Load reads a file in YAML or JSON. Fields that are not in the file have their defaults. A missing or another
// apiVersion or kind, and an unknown or repeated field, is an error that names it. Load does not validate values: see
// [Validate].
func Load(path string) (*NodeAgentConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

// decode decodes a file into the defaults: a field that the file sets to its zero value is set.
func decode(data []byte) (*NodeAgentConfiguration, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(groupVersion, &NodeAgentConfiguration{})
	c, want := Default(), groupVersion.WithKind(kind)
	c.APIVersion, c.Kind = "", "" // must be in the file
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	_, _, err := codecs.UniversalDeserializer().Decode(data, nil, c)
	decoded := err == nil || runtime.IsStrictDecodingError(err)
	switch {
	case runtime.IsNotRegisteredError(err), decoded && c.GroupVersionKind() != want:
		return nil, fmt.Errorf("it must have apiVersion: %s and kind: %s", groupVersion, kind)
	case errors.Is(err, resource.ErrFormatWrong), errors.Is(err, resource.ErrSuffix), errors.Is(err, resource.ErrNumeric):
		return nil, fmt.Errorf("tmpfs.size: Invalid value: %w", err) // the only quantity of the file
	case err != nil:
		return nil, err
	}
	return c, nil
}
