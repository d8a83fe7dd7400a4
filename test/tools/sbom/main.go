// SPDX-License-Identifier: Apache-2.0

// Command sbom writes a software bill of materials for each module that it is given.
// It lists the modules that a program links which imports every package of the
// module: those that only tests, examples and tools need are absent. The format is
// CycloneDX 1.6, as JSON. The same commit gives the same bytes.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	out := flag.String("o", ".", "the folder of the files to write")
	version := flag.String("version", "", "the version of the modules, such as v0.1.0")
	timestamp := flag.String("timestamp", "", "the time of the commit, such as 2026-01-02T15:04:05Z")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: sbom -version VERSION -timestamp TIME [-o FOLDER] MODULE_FOLDER...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *version == "" || *timestamp == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, dir := range flag.Args() {
		if err := write(*out, dir, *version, *timestamp); err != nil {
			fmt.Fprintf(os.Stderr, "sbom: %s: %v\n", dir, err)
			os.Exit(1)
		}
	}
}

// write writes the bill of the module in dir, to a file named after the module.
func write(out, dir, version, timestamp string) error {
	bom, err := newBOM(dir, version, timestamp)
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(bom.Metadata.Component.Name, "github.com/refwatch/"), "/", "-")
	path := filepath.Join(out, name+".cdx.json")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the second Close after a failure; the first is checked
	if err := encode(file, bom); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Printf("%s: %d modules\n", path, len(*bom.Components))
	return nil
}

func encode(w io.Writer, bom *cdx.BOM) error {
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).
		EncodeVersion(bom, cdx.SpecVersion1_6)
}
