package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists the release's programs and, by each, the modules that its build info names,
// as CycloneDX.
func (r *release) writeSBOM(file string) (err error) {
	binaries, err := filepath.Glob(filepath.Join(r.kept, "*"))
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = "" // the same programs give the same bytes
	root := cdx.Component{BOMRef: "release", Type: cdx.ComponentTypeApplication, Name: "sigma", Version: r.version}
	bom.Metadata = &cdx.Metadata{Component: &root}
	var components, modules []cdx.Component
	var dependencies []cdx.Dependency
	var programs []string
	known := map[string]bool{}
	for _, b := range binaries {
		info, err := buildinfo.ReadFile(b)
		if err != nil {
			return err
		}
		sum, err := sumOf(b)
		if err != nil {
			return err
		}
		ref := filepath.Base(b)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: ref, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		})
		var uses []string
		for _, m := range append(slices.Clone(info.Deps), &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
			if m.Replace != nil {
				m = m.Replace
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			uses = append(uses, purl)
			if !known[purl] {
				known[purl] = true
				modules = append(modules, cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl})
			}
		}
		slices.Sort(uses)
		programs = append(programs, ref)
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &uses})
	}
	slices.SortFunc(modules, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	components = append(components, modules...)
	dependencies = append([]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &programs}}, dependencies...)
	bom.Components, bom.Dependencies = &components, &dependencies

	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}
