package main

import (
	"archive/tar"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testVersion  = "v0.0.0-test"
	testRevision = "0123456789abcdef"
	roots        = "etc/ssl/certs/ca-certificates.crt"
	user         = 65532
	limit        = 40e6 // bytes of an image, compressed
)

// run is hack/release/run.sh with variables, and what it prints.
func run(t *testing.T, command, folder string, variables ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./run.sh", command, folder)
	cmd.Env = append(os.Environ(), "VERSION="+testVersion, "REVISION="+testRevision, "ARCHS="+runtime.GOARCH)
	cmd.Env = append(cmd.Env, variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

var programs = []string{"sigma", "sigma-scheduler", "sigma-extender", "sigma-mpa", "sigma-pilot", "sigma-gate", "sigma-flow"}

// TestImages builds a program's image, pushes it to a registry, pulls it from there, and
// runs what it unpacks to in a root of its own.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	_, err := run(t, "images", dir)
	require.NoError(t, err)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	out, err := run(t, "push", dir, "REGISTRY="+host)
	require.NoError(t, err)

	for _, p := range programs {
		t.Run(p, func(t *testing.T) {
			ref, err := name.NewTag(host + "/" + p + ":" + testVersion)
			require.NoError(t, err)
			assert.Contains(t, out, host+"/"+p+"@sha256:")
			img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
			require.NoError(t, err)
			require.NoError(t, validate.Image(img))

			config, err := img.ConfigFile()
			require.NoError(t, err)
			assert.Equal(t, "65532:65532", config.Config.User)
			assert.Equal(t, []string{"/ko-app/" + p}, config.Config.Entrypoint)
			assert.Equal(t, map[string]string{
				"org.opencontainers.image.title":    p,
				"org.opencontainers.image.version":  testVersion,
				"org.opencontainers.image.revision": testRevision,
			}, config.Config.Labels)
			assert.Equal(t, runtime.GOARCH, config.Architecture)
			assert.Less(t, compressed(t, img), int64(limit))

			loaded, err := tarball.ImageFromPath(filepath.Join(dir, p+"-linux-"+runtime.GOARCH+".tar"), nil)
			require.NoError(t, err, "the tarball")
			assert.Equal(t, configName(t, img), configName(t, loaded), "the tarball holds another image")

			root := t.TempDir()
			assert.ElementsMatch(t, []string{
				"etc", "etc/ssl", "etc/ssl/certs", roots,
				"var", "var/run", "var/run/ko", "ko-app", "ko-app/" + p,
			}, unpack(t, img, root))
			pem, err := os.ReadFile(filepath.Join(root, roots))
			require.NoError(t, err)
			pool := x509.NewCertPool()
			require.True(t, pool.AppendCertsFromPEM(pem))
			runs(t, root, p)
		})
	}
}

// runs starts a program in its unpacked image, as the image's user.
func runs(t *testing.T, root, program string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root folder")
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the image's user enters it
	}
	arg := "--version"
	if program == "sigma" {
		arg = "version"
	}
	cmd := exec.CommandContext(t.Context(), "/ko-app/"+program, arg)
	cmd.Path, cmd.Err, cmd.Dir, cmd.Env = "/ko-app/"+program, nil, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	got, err := cmd.CombinedOutput()
	require.NoError(t, err, string(got))
	want := testVersion
	if program == "sigma-scheduler" {
		want = "Kubernetes v1." // upstream's flag
	}
	assert.Contains(t, string(got), want)
}

func TestBadInput(t *testing.T) {
	_, err := run(t, "images", t.TempDir(), "PROGRAMS=sigma-nothing")
	require.ErrorContains(t, err, `no program "sigma-nothing" in `)
	_, err = run(t, "push", t.TempDir(), "REGISTRY=localhost:1")
	require.ErrorContains(t, err, "run `make images` first")
	_, err = run(t, "push", t.TempDir(), "REGISTRY=")
	require.ErrorContains(t, err, "REGISTRY is not set")
}

func compressed(t *testing.T, img v1.Image) int64 {
	t.Helper()
	m, err := img.Manifest()
	require.NoError(t, err)
	var sum int64
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum
}

func configName(t *testing.T, img v1.Image) string {
	t.Helper()
	h, err := img.ConfigName()
	require.NoError(t, err)
	return h.String()
}

// unpack writes the files of an image below root and returns their paths.
func unpack(t *testing.T, img v1.Image, root string) []string {
	t.Helper()
	content := mutate.Extract(img)
	defer func() { require.NoError(t, content.Close()) }()
	var paths []string
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return paths
		}
		require.NoError(t, err)
		path := filepath.Join(root, h.Name)
		paths = append(paths, strings.Trim(h.Name, "/"))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, os.FileMode(h.Mode)))
			continue
		}
		assert.LessOrEqual(t, h.ModTime.Unix(), int64(0), "%s has a time", h.Name)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, os.FileMode(h.Mode)))
	}
}

// TestPushOtherVersion: images are pushed under the version that they were built with, and under no other.
func TestPushOtherVersion(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sigma"), 0o750))
	for file, text := range map[string]string{"sigma/oci-layout": "{}", "VERSION": "v1\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	_, err := run(t, "push", dir, "REGISTRY=127.0.0.1:1/none", "VERSION=v2")
	require.ErrorContains(t, err, "VERSION is v2; the images in "+dir+" have version v1")
}
