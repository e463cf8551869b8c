package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"
)

func smallRelease(t *testing.T) *release {
	t.Helper()
	platforms := []string{"linux-" + runtime.GOARCH, "windows-amd64"}
	if testing.Short() {
		platforms = platforms[:1]
	}
	return &release{
		source: *checkout("sigma"), images: filepath.Join(t.TempDir(), "images"),
		registry: "registry.example.com/sigma", url: "https://example.com/v0", platforms: platforms,
	}
}

// TestRelease reads back what a release of one program holds; a second one has the same bytes,
// and takes the place of the first. With -short it builds for no other system.
func TestRelease(t *testing.T) {
	r, dir := smallRelease(t), filepath.Join(t.TempDir(), "out", "release")
	require.NoError(t, r.write(t.Context(), dir, io.Discard))
	first := read(t, filepath.Join(dir, sums))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stale"), nil, 0o600))
	require.NoError(t, r.write(t.Context(), dir, io.Discard))
	assert.Equal(t, first, read(t, filepath.Join(dir, sums)))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".release*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	files := map[string]string{} // by name, their sums
	for line := range strings.Lines(first) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		require.True(t, ok, line)
		is, err := sumOf(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, is, sum, name)
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

	chart, err := loader.Load(filepath.Join(dir, "sigma-0.0.0-test.tgz"))
	require.NoError(t, err)
	assert.Equal(t, testVersion, chart.AppVersion())
	assert.Contains(t, archived(t, filepath.Join(dir, "manifests.tgz")), "manifests/components/network-policy/kustomization.yaml")

	var krew struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "krew.yaml"))), &krew))
	assert.Equal(t, "v0.0.0-test", krew.Spec.Version)
	require.Len(t, krew.Spec.Platforms, len(r.platforms))
	for _, p := range krew.Spec.Platforms {
		name, ok := strings.CutPrefix(p.URI, r.url+"/")
		assert.True(t, ok, p.URI)
		assert.Equal(t, files[name], p.SHA256, name)
		assert.Equal(t, []string{p.Bin}, archived(t, filepath.Join(dir, name)))
	}

	f, err := os.Open(filepath.Join(dir, "sbom.cdx.json"))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom))
	i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == program })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, files[program], (*(*bom.Components)[i].Hashes)[0].Value)
	i = slices.IndexFunc(*bom.Dependencies, func(d cdx.Dependency) bool { return d.Ref == program })
	assert.True(t, slices.ContainsFunc(*(*bom.Dependencies)[i].Dependencies, func(purl string) bool {
		return strings.HasPrefix(purl, "pkg:golang/k8s.io/client-go@v")
	}))
}

// archived are the names in an archive.
func archived(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		names = append(names, h.Name)
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
		require.NoError(t, writeInstall("../..", dir, registry, "v1"))
		assert.Contains(t, read(t, filepath.Join(dir, "install.yaml")), want)
		for _, i := range installs {
			text := read(t, filepath.Join(dir, i.file))
			assert.Equal(t, strings.HasPrefix(i.file, "crds"), strings.Contains(text, "kind: CustomResourceDefinition\n"), i.file)
			assert.NotContains(t, text, ":dev\n", i.file)
			assert.NotContains(t, text, "kind: NetworkPolicy\n", i.file)
			assert.Equal(t, i.file == "install-pilot.yaml", strings.Contains(text, "name: sigma-pilot\n"), i.file)
			for line := range strings.Lines(text) {
				if image, ok := strings.CutPrefix(strings.TrimLeft(line, " -"), "image: "); ok {
					assert.True(t, strings.HasPrefix(image, registry), "%s: %s", i.file, image)
				}
			}
		}
	}
}

// TestInstallPilot: install-pilot.yaml changes of install.yaml what the component changes, and adds the pilot.
func TestInstallPilot(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeInstall("../..", dir, "", "v1"))
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
	for want, change := range map[string]func(*release){
		`REGISTRY "https://registry.example.com"`: func(r *release) { r.registry = "https://registry.example.com" },
		`VERSION "a b"`:              func(r *release) { r.version = "a b" },
		`URL "http://example.com"`:   func(r *release) { r.url = "http://example.com" },
		`no program "sigma-nothing"`: func(r *release) { r.programs = []string{"sigma-nothing"} },
	} {
		r := smallRelease(t)
		change(r)
		dir := filepath.Join(t.TempDir(), "release")
		require.ErrorContains(t, r.write(t.Context(), dir, io.Discard), want)
		assert.NoDirExists(t, dir)
		assert.NoDirExists(t, r.images)
	}
	mine := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "mine"), nil, 0o600))
	require.ErrorContains(t, smallRelease(t).write(t.Context(), mine, io.Discard), "something else than a release")
	assert.FileExists(t, filepath.Join(mine, "mine"))
}
