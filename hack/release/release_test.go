package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const url = "https://example.com/v0"

// release writes a release of one program, with variables.
func release(t *testing.T, dir string, variables ...string) error {
	t.Helper()
	platforms := "linux-" + runtime.GOARCH
	if !testing.Short() {
		platforms += " windows-amd64"
	}
	_, err := run(t, "release", dir, append([]string{
		"PROGRAMS=sigma", "PLATFORMS=" + platforms, "IMAGES=" + filepath.Join(filepath.Dir(dir), "images"),
		"REGISTRY=registry.example.com/sigma", "URL=" + url,
	}, variables...)...)
	return err
}

// TestRelease reads back what a release of one program holds; a second one has the same bytes,
// and takes the place of the first. With -short it builds for no other system.
func TestRelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out", "release")
	require.NoError(t, release(t, dir))
	first := read(t, filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stale"), nil, 0o600))
	require.NoError(t, release(t, dir))
	assert.Equal(t, first, read(t, filepath.Join(dir, "SHA256SUMS")))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".release*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	files := map[string]string{} // by name, their sums
	for line := range strings.Lines(first) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, ok, line)
		assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, filepath.Join(dir, name))))), sum, name)
		files[name] = sum
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, len(files)+1, "all files but the sums have a sum")
	program := "sigma-linux-" + runtime.GOARCH
	names := []string{program, "image-sigma.oci.tar", "image-" + program + ".tar", "manifests.tgz", "policy.yaml"}
	if !testing.Short() {
		names = append(names, "sigma-windows-amd64.exe")
	}
	for _, name := range names {
		assert.Contains(t, files, name)
	}
	assert.Contains(t, read(t, filepath.Join(dir, "NOTES.md")), "- sigma:"+testVersion+" sha256:")

	text, err := exec.CommandContext(t.Context(), tool(t, "helm"), "show", "chart", filepath.Join(dir, "sigma-0.0.0-test.tgz")).Output()
	require.NoError(t, err)
	assert.Contains(t, string(text), "appVersion: "+testVersion+"\n")
	assert.Contains(t, archived(t, filepath.Join(dir, "sigma-0.0.0-test.tgz")), "sigma/crds/rebalances.yaml")
	assert.Contains(t, archived(t, filepath.Join(dir, "manifests.tgz")), "manifests/components/network-policy/kustomization.yaml")

	var krew struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "krew.yaml"))), &krew))
	assert.Equal(t, "v0.0.0-test", krew.Spec.Version)
	require.NotEmpty(t, krew.Spec.Platforms)
	for _, p := range krew.Spec.Platforms {
		name, ok := strings.CutPrefix(p.URI, url+"/")
		assert.True(t, ok, p.URI)
		assert.Equal(t, files[name], p.SHA256, name)
		assert.Equal(t, []string{p.Bin}, archived(t, filepath.Join(dir, name)))
	}

	boms := contents(t, filepath.Join(dir, "sbom.tgz"))
	for _, bom := range []string{program, "image-" + program} {
		assert.Contains(t, boms["sbom/"+bom+".cdx.json"], `"purl": "pkg:golang/k8s.io/client-go@v`)
	}
}

// archived are the names of files in an archive.
func archived(t *testing.T, file string) []string {
	t.Helper()
	return slices.Collect(maps.Keys(contents(t, file)))
}

// contents are the files in an archive by their names.
func contents(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(r)
			require.NoError(t, err)
			all[h.Name] = string(text)
		}
	}
}

// TestInstallFiles: every image has the release's name and tag, and no scheduler's file has
// kinds of objects: who deletes it keeps policies.
func TestInstallFiles(t *testing.T) {
	for registry, want := range map[string]string{
		"":                          "image: sigma-scheduler:v1\n",
		"registry.example.com/a/b/": "image: registry.example.com/a/b/sigma-scheduler:v1\n",
	} {
		dir := t.TempDir()
		_, err := run(t, "install", dir, "REGISTRY="+registry, "VERSION=v1")
		require.NoError(t, err)
		assert.Contains(t, read(t, filepath.Join(dir, "install.yaml")), want)
		files, err := filepath.Glob(filepath.Join(dir, "*s*.yaml"))
		require.NoError(t, err)
		require.Len(t, files, 10)
		for _, path := range files {
			file, text := filepath.Base(path), read(t, path)
			assert.Equal(t, strings.HasPrefix(file, "crds"), strings.Contains(text, "kind: CustomResourceDefinition\n"), file)
			assert.NotContains(t, text, ":dev\n", file)
			assert.NotContains(t, text, "kind: NetworkPolicy\n", file)
			assert.Equal(t, file == "install-pilot.yaml", strings.Contains(text, "name: sigma-pilot\n"), file)
			for line := range strings.Lines(text) {
				if image, ok := strings.CutPrefix(strings.TrimLeft(line, " -"), "image: "); ok {
					assert.True(t, strings.HasPrefix(image, registry), "%s: %s", file, image)
				}
			}
		}
	}
}

// TestInstallPilot: install-pilot.yaml changes of install.yaml what the component changes, and adds the pilot.
func TestInstallPilot(t *testing.T) {
	dir := t.TempDir()
	_, err := run(t, "install", dir)
	require.NoError(t, err)
	objects := func(file string) map[string]any {
		all := map[string]any{}
		for text := range strings.SplitSeq(read(t, filepath.Join(dir, file)), "\n---\n") {
			key, o := normal(t, text)
			all[key] = o
		}
		return all
	}
	plain, pilot := objects("install.yaml"), objects("install-pilot.yaml")
	var changed, added []string
	for key, o := range pilot {
		if was, ok := plain[key]; !ok {
			added = append(added, key)
		} else if !assert.ObjectsAreEqual(was, o) {
			changed = append(changed, key)
		}
		delete(plain, key)
	}
	slices.Sort(changed)
	slices.Sort(added)
	assert.Empty(t, plain)
	assert.Equal(t, []string{"ConfigMap sigma-scheduler-config", "Deployment sigma-scheduler"}, changed)
	// All pods with the claim follow each other to its node, the scheduler's too.
	const label = `"sigma-scheduler.io/volume":"history"`
	for _, key := range []string{"Deployment sigma-scheduler", "Deployment sigma-pilot", "CronJob sigma-pilot-training"} {
		text, err := json.Marshal(pilot[key])
		require.NoError(t, err)
		assert.Contains(t, string(text), `"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{`+label+`}},"topologyKey":"kubernetes.io/hostname"}]}`, key)
		assert.Equal(t, 2, strings.Count(string(text), label), "%s: the pod has the label too", key)
	}
	assert.Equal(t, []string{
		"ClusterRole sigma-pilot", "ClusterRoleBinding sigma-pilot", "CronJob sigma-pilot-training", "Deployment sigma-pilot",
		"PersistentVolumeClaim sigma-history", "Role sigma-pilot", "Role sigma-pilot-events in default", "RoleBinding sigma-pilot",
		"RoleBinding sigma-pilot-events in default", "ServiceAccount sigma-pilot", "ValidatingAdmissionPolicy sigma-pilot",
		"ValidatingAdmissionPolicy sigma-pilot-job-names", "ValidatingAdmissionPolicy sigma-pilot-jobs", "ValidatingAdmissionPolicyBinding sigma-pilot",
		"ValidatingAdmissionPolicyBinding sigma-pilot-job-names", "ValidatingAdmissionPolicyBinding sigma-pilot-jobs",
	}, added)
}

func TestReleaseBadInput(t *testing.T) {
	for variable, want := range map[string]string{
		"REGISTRY=https://registry.example.com": `REGISTRY "https://registry.example.com"`,
		"VERSION=a b":                           `VERSION "a b"`,
		"URL=http://example.com":                `URL "http://example.com"`,
		"PROGRAMS=sigma-nothing":                `no program "sigma-nothing"`,
	} {
		dir := filepath.Join(t.TempDir(), "release")
		require.ErrorContains(t, release(t, dir, variable), want)
		assert.NoDirExists(t, dir)
		assert.NoDirExists(t, filepath.Join(filepath.Dir(dir), "images"))
	}
	mine := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "mine"), nil, 0o600))
	require.ErrorContains(t, release(t, mine), "other files than a release")
	assert.FileExists(t, filepath.Join(mine, "mine"))
}
