package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// keepBinaries makes the source build each program once for a platform, until remove.
func (s *source) keepBinaries() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	s.kept = dir
	return func() {
		s.kept = ""
		_ = os.RemoveAll(dir) // the system's temporary files
	}, nil
}

// writeBinaries puts the command line for every platform into dir, as a program and as an
// archive for krew, with krew's manifest.
func (r *release) writeBinaries(ctx context.Context, dir string) error {
	var krew []map[string]any
	for _, p := range r.platforms {
		goos, goarch, _ := strings.Cut(p, "-")
		binary, err := r.binary(ctx, "sigma", goos, goarch)
		if err != nil {
			return err
		}
		extension := ""
		if goos == "windows" {
			extension = ".exe"
		}
		if err := copyFile(binary, filepath.Join(dir, "sigma-"+p+extension), 0o755); err != nil {
			return err
		}
		plugin, archive := "kubectl-sigma"+extension, "kubectl-sigma-"+p+".tar.gz"
		if err := packFiles([]entry{{plugin, binary, 0o755}}, filepath.Join(dir, archive)); err != nil {
			return err
		}
		sum, err := sumOf(filepath.Join(dir, archive))
		if err != nil {
			return err
		}
		krew = append(krew, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": goos, "arch": goarch}},
			"uri":      strings.TrimSuffix(r.url, "/") + "/" + archive,
			"sha256":   sum,
			"bin":      plugin,
		})
	}
	if r.url == "" {
		return nil
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "sigma"},
		"spec": map[string]any{
			"version":          "v" + chartVersion(r.version),
			"homepage":         r.url,
			"shortDescription": "Simulate, train and explain pod placement",
			"description": "Simulates how a cluster's pods would be placed by other policies, trains policies on\n" +
				"what the cluster did, and explains the decisions of Sigma's scheduler.\n",
			"platforms": krew,
		},
	})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "krew.yaml"), content)
}
