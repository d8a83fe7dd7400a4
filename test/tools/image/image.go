// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is that of distroless' nonroot, which manifests know.
const user = "65532:65532"

// imageOf returns an image with one file, which it runs.
func imageOf(binary, arch string, at time.Time, labels map[string]string) (v1.Image, error) {
	files, err := layerOf(binary, at)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: at}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "go build"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", created
	config.Config = v1.Config{Entrypoint: []string{"/" + filepath.Base(binary)}, User: user, Labels: labels}
	return mutate.ConfigFile(image, config)
}

// layerOf returns a tar file with a program, which everybody may run and nobody change.
func layerOf(binary string, at time.Time) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	header := &tar.Header{Name: filepath.Base(binary), Size: int64(len(program)), Mode: 0o555, ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := archive.Write(program); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return files.Bytes(), nil
}
