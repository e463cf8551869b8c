package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
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
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
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
	limit        = 40e6 // bytes of an image, compressed
)

func checkout(programs ...string) *source {
	return &source{root: "../..", version: testVersion, revision: testRevision, programs: programs, archs: []string{runtime.GOARCH}}
}

// TestImages builds a program's image, pushes it to a registry, pulls it from there, and
// runs what it unpacks to in a root of its own.
func TestImages(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, writeImages(t.Context(), checkout(programs...), dir, io.Discard))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	var out bytes.Buffer
	require.NoError(t, pushImages(t.Context(), dir, host, "", &out))

	for _, p := range programs {
		t.Run(p, func(t *testing.T) {
			ref, err := name.NewTag(host + "/" + p + ":" + testVersion)
			require.NoError(t, err)
			assert.Contains(t, out.String(), ref.String()+"@sha256:")
			img, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
			require.NoError(t, err)
			require.NoError(t, validate.Image(img))

			config, err := img.ConfigFile()
			require.NoError(t, err)
			assert.Equal(t, "65532:65532", config.Config.User)
			assert.Equal(t, []string{"/" + p}, config.Config.Entrypoint)
			assert.Equal(t, map[string]string{labelTitle: p, labelVersion: testVersion, labelRevision: testRevision}, config.Config.Labels)
			assert.Equal(t, runtime.GOARCH, config.Architecture)
			assert.Less(t, compressed(t, img), int64(limit))

			loaded, err := tarball.ImageFromPath(filepath.Join(dir, p+"-linux-"+runtime.GOARCH+".tar"), nil)
			require.NoError(t, err, "the tarball")
			assert.Equal(t, configName(t, img), configName(t, loaded), "the tarball holds another image")

			root := t.TempDir()
			assert.ElementsMatch(t, []string{"etc", "etc/ssl", "etc/ssl/certs", certificates, p}, unpack(t, img, root))
			pem, err := os.ReadFile(filepath.Join(root, certificates))
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
	cmd := exec.CommandContext(t.Context(), "/"+program, arg)
	cmd.Path, cmd.Err, cmd.Dir, cmd.Env = "/"+program, nil, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	got, err := cmd.CombinedOutput()
	require.NoError(t, err, string(got))
	want := testVersion
	if program == "sigma-scheduler" {
		want = "Kubernetes v1." // upstream's flag
	}
	assert.Contains(t, string(got), want)
}

// TestImagesAgain: two builds in two folders have the same digest.
func TestImagesAgain(t *testing.T) {
	var digests []string
	for range 2 {
		dir := t.TempDir()
		require.NoError(t, writeImages(t.Context(), checkout("sigma"), dir, io.Discard))
		index, err := readLayout(filepath.Join(dir, "sigma"))
		require.NoError(t, err)
		d, err := index.Digest()
		require.NoError(t, err)
		digests = append(digests, d.String())
	}
	assert.Equal(t, digests[0], digests[1])
}

func TestBadInput(t *testing.T) {
	s := checkout("sigma-nothing")
	require.ErrorContains(t, writeImages(t.Context(), s, t.TempDir(), io.Discard), `no program "sigma-nothing" in ../../cmd`)
	require.ErrorContains(t, pushImages(t.Context(), t.TempDir(), "localhost:1", "", io.Discard), "run `make images` first")

	dir := t.TempDir()
	_, err := layout.Write(filepath.Join(dir, "sigma"), empty.Index)
	require.NoError(t, err)
	require.ErrorContains(t, pushImages(t.Context(), dir, "localhost:1", "", io.Discard), "0 images where one is expected")
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
		paths = append(paths, filepath.Clean(h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, os.FileMode(h.Mode)))
			continue
		}
		assert.Equal(t, int64(0), h.ModTime.Unix(), "%s has a time", h.Name)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, os.FileMode(h.Mode)))
	}
}
