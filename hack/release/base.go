// Command base writes the image that ko builds ours on: root certificates, the user, and nothing
// else, for each architecture, as an OCI layout. ko finds it as KOCACHE/img, so no registry is needed.
//
//	go run . $KOCACHE/img amd64 arm64
//
// It prints the digest of the index.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "base: want a folder and architectures")
		os.Exit(2)
	}
	digest, err := write(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "base:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

func write(dir string, archs []string) (v1.Hash, error) {
	roots, err := certificates()
	if err != nil {
		return v1.Hash{}, err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), roots)
		if err != nil {
			return v1.Hash{}, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return v1.Hash{}, err
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = "linux", arch
		config.Config.User = "65532:65532" // as the manifests have it
		if image, err = mutate.ConfigFile(image, config); err != nil {
			return v1.Hash{}, err
		}
		if err := path.AppendImage(image); err != nil { // ko reads each image at the top of its cache
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	if err := path.AppendIndex(index); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// certificates is a layer of Mozilla's root certificates, as the Go project keeps them, at the first
// path that crypto/x509 reads. A root that Mozilla trusts under a constraint only is left out: a PEM
// file cannot state it.
func certificates() (v1.Layer, error) {
	var roots, layer bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a Buffer does not fail
		}
	}
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
	}
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Size: int64(roots.Len()), ModTime: time.Unix(0, 0)})
	if err != nil {
		return nil, err
	}
	_, err = roots.WriteTo(w)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
