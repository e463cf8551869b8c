package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user runs the programs: nobody's number, as the manifests have it.
	user = 65532
	// certificates is the first path that Go's crypto/x509 reads.
	certificates = "etc/ssl/certs/ca-certificates.crt"

	labelTitle    = "org.opencontainers.image.title"
	labelVersion  = "org.opencontainers.image.version"
	labelRevision = "org.opencontainers.image.revision"
)

// writeImages writes for each program DIR/PROGRAM, an OCI layout of an index with an image
// for each architecture, and DIR/PROGRAM-linux-ARCH.tar, which `docker load`,
// `ctr images import` and `kind load image-archive` read.
func writeImages(ctx context.Context, s *source, dir string, out io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.kept == "" {
		remove, err := s.keepBinaries()
		if err != nil {
			return err
		}
		defer remove()
	}
	if err := clearImages(dir); err != nil {
		return err
	}
	roots, err := layer(file{certificates, 0o644, rootCertificates()})
	if err != nil {
		return err
	}
	for _, p := range s.programs {
		index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, arch := range s.archs {
			img, err := s.image(ctx, p, arch, roots)
			if err != nil {
				return err
			}
			ref, err := name.NewTag(p + ":" + s.version)
			if err != nil {
				return fmt.Errorf("--version %q: %w", s.version, err)
			}
			archive := filepath.Join(dir, p+"-linux-"+arch+".tar")
			if err := tarball.WriteToFile(archive, ref, img); err != nil {
				return err
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add:        img,
				Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
			})
		}
		index = mutate.Annotations(index, s.labels(p)).(v1.ImageIndex)
		if err := writeLayout(filepath.Join(dir, p), index, s.version); err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s:%s %s\n", p, s.version, digest)
	}
	return nil
}

// clearImages makes a folder that has no images, so that a push takes no image of a former
// build.
func clearImages(dir string) error {
	for _, p := range programs {
		old, err := filepath.Glob(filepath.Join(dir, p+"-linux-*.tar"))
		if err != nil {
			return err
		}
		for _, path := range append(old, filepath.Join(dir, p)) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// writeLayout writes an index under the tag by which tools find it in a layout.
func writeLayout(dir string, index v1.ImageIndex, tag string) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}))
}

// image has a program, root certificates and nothing else.
func (s *source) image(ctx context.Context, program, arch string, roots v1.Layer) (v1.Image, error) {
	binary, err := s.binary(ctx, program, "linux", arch)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	programs, err := layer(file{program, 0o755, content})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), roots, programs)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config.User = fmt.Sprintf("%d:%d", user, user)
	config.Config.Entrypoint = []string{"/" + program}
	config.Config.Labels = s.labels(program)
	return mutate.ConfigFile(img, config)
}

func (s *source) labels(program string) map[string]string {
	l := map[string]string{labelTitle: program, labelVersion: s.version}
	if s.revision != "" {
		l[labelRevision] = s.revision
	}
	return l
}

// file is one file of a layer, its path without a leading slash.
type file struct {
	path    string
	mode    int64
	content []byte
}

// layer is a layer of one file and the folders above it, without times and names of owners.
func layer(f file) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, c := range f.path {
		if c == '/' {
			h := &tar.Header{Typeflag: tar.TypeDir, Name: f.path[:i+1], Mode: 0o755, ModTime: time.Unix(0, 0)}
			if err := w.WriteHeader(h); err != nil {
				return nil, err
			}
		}
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0)}
	if err := errors.Join(w.WriteHeader(h), write(w, f.content), w.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// rootCertificates are Mozilla's, as the Go project keeps them, in PEM. A root that Mozilla
// trusts under a constraint only is left out: a PEM file cannot state it.
func rootCertificates() []byte {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a Buffer does not fail
		}
	}
	return b.Bytes()
}

// pushImages pushes each layout of a folder to REGISTRY/PROGRAM:TAG.
func pushImages(ctx context.Context, dir, registry, tag string, out io.Writer) error {
	layouts, err := filepath.Glob(filepath.Join(dir, "*", "oci-layout"))
	if err != nil {
		return err
	}
	if len(layouts) == 0 {
		return fmt.Errorf("%s has no images: run `make images` first", dir)
	}
	for _, l := range layouts {
		program := filepath.Base(filepath.Dir(l))
		index, err := readLayout(filepath.Dir(l))
		if err != nil {
			return err
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return err
		}
		t := tag
		if t == "" {
			t = manifest.Annotations[labelVersion]
		}
		ref, err := name.NewTag(registry + "/" + program + ":" + t)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s@%s\n", ref, digest)
	}
	return nil
}

// readLayout is the one index of a layout that writeLayout wrote.
func readLayout(dir string) (v1.ImageIndex, error) {
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(m.Manifests) != 1 {
		return nil, fmt.Errorf("%s: %d images where one is expected", dir, len(m.Manifests))
	}
	return outer.ImageIndex(m.Manifests[0].Digest)
}
