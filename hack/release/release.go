package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// sums is the list of a release's files with their SHA-256, as sha256sum reads it.
const sums = "SHA256SUMS"

// platforms are those that the command line is built for, as GOOS-GOARCH.
var platforms = []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"}

// release holds the target of a release and the names in it.
type release struct {
	source
	images   string // folder of the images, for a push
	registry string // where users pull the images from; "" = nodes have them
	url      string // folder on the web that will hold the files; "" = unknown

	platforms []string // of the command line, as GOOS-GOARCH
}

// write replaces the folder dir by a release. An error leaves the folder as it was.
func (r *release) write(ctx context.Context, dir string, out io.Writer) (err error) {
	if err := r.checkNames(); err != nil {
		return err
	}
	if err := replaceable(dir, sums, "a release"); err != nil {
		return err
	}
	tmp, err := newBeside(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()

	remove, err := r.keepBinaries()
	if err != nil {
		return err
	}
	defer remove()
	var digests bytes.Buffer
	if err := writeImages(ctx, &r.source, r.images, &digests); err != nil {
		return err
	}
	if err := packImages(r.images, tmp); err != nil {
		return err
	}
	if err := r.writeBinaries(ctx, tmp); err != nil {
		return err
	}
	if err := writeInstall(r.root, tmp, r.registry, r.version); err != nil {
		return err
	}
	if err := r.packFolders(tmp); err != nil {
		return err
	}
	if err := r.writeSBOM(filepath.Join(tmp, "sbom.cdx.json")); err != nil {
		return err
	}
	if err := r.writeNotes(ctx, filepath.Join(tmp, "NOTES.md"), digests.String()); err != nil {
		return err
	}
	if err := writeSums(tmp); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	if r.registry == "" {
		fmt.Fprintln(out, "REGISTRY is not set: the manifests name images without a registry, which nodes must have already")
	}
	if r.url == "" {
		fmt.Fprintln(out, "URL is not set: no manifest for krew, which has to say where the archives are")
	}
	fmt.Fprintln(out, dir)
	return nil
}

// checkNames reports names that no registry takes, before anything is built.
func (r *release) checkNames() error {
	if err := r.check(); err != nil {
		return err
	}
	if _, err := name.NewTag(programs[0] + ":" + r.version); err != nil {
		return fmt.Errorf("VERSION %q: %w", r.version, err)
	}
	if _, err := name.NewTag(imageName(r.registry, programs[0]) + ":" + r.version); err != nil || strings.Contains(r.registry, "://") {
		return fmt.Errorf("REGISTRY %q: want a host and a folder, as in registry.example.com/sigma", r.registry)
	}
	if r.url != "" && !strings.HasPrefix(r.url, "https://") {
		return fmt.Errorf("URL %q: want https://…", r.url)
	}
	return nil
}

func imageName(registry, program string) string {
	if registry == "" {
		return program
	}
	return strings.TrimSuffix(registry, "/") + "/" + program
}

// newBeside makes an empty folder on dir's disk.
func newBeside(dir string) (string, error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // others read it
		return "", err
	}
	tmp, err := os.MkdirTemp(parent, ".release")
	if err != nil {
		return "", err
	}
	return tmp, os.Chmod(tmp, 0o755) //nolint:gosec // others read it
}

// packImages puts the tarballs, and each layout as an archive, into dir.
func packImages(images, dir string) error {
	entries, err := os.ReadDir(images)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(images, e.Name())
		if e.IsDir() {
			err = pack(path, "", filepath.Join(dir, "image-"+e.Name()+".oci.tar"))
		} else {
			err = copyFile(path, filepath.Join(dir, "image-"+e.Name()), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packFolders puts the chart and the manifests into dir.
func (r *release) packFolders(dir string) error {
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	chart := filepath.Join(tmp, "sigma")
	if err := writeChart(r.root, chart, r.version); err != nil {
		return err
	}
	if err := pack(chart, "sigma", filepath.Join(dir, "sigma-"+chartVersion(r.version)+".tgz")); err != nil {
		return err
	}
	return pack(filepath.Join(r.root, "manifests"), "manifests", filepath.Join(dir, "manifests.tgz"))
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return errors.Join(err, w.Close())
}

// writeSums lists the files of a folder.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list []string
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		list = append(list, sum+"  "+e.Name()+"\n")
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(dir, sums), []byte(strings.Join(list, "")), 0o644) //nolint:gosec // others read it
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
