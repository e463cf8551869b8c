package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name, file string
	mode       int64
}

// pack writes a folder, or the tree of it that users need, as an archive with the folder's
// files below prefix; a name in .tgz or .tar.gz is compressed. The bytes depend on nothing but the
// files.
func pack(folder, prefix, archive string) error {
	var entries []entry
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, ".go") {
			return err
		}
		rel, err := filepath.Rel(folder, p)
		entries = append(entries, entry{path.Join(prefix, filepath.ToSlash(rel)), p, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return packFiles(entries, archive)
}

func packFiles(entries []entry, archive string) (err error) {
	f, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // others read it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var out io.WriteCloser = f
	if !strings.HasSuffix(archive, ".tar") {
		z := gzip.NewWriter(f)
		defer func() { err = errors.Join(err, z.Close()) }()
		out = z
	}
	w := tar.NewWriter(out)
	for _, e := range entries {
		content, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(content)), ModTime: time.Unix(0, 0)}
		if err := errors.Join(w.WriteHeader(h), write(w, content)); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
	return w.Close()
}
