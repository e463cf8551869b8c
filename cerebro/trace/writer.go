package trace

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the trace as the folder dir. It writes aside and renames, so
// that dir is never half written. A trace in dir is replaced, though README*,
// LICENSE* and hidden files stay; any other folder that is not empty is refused.
func (t *Trace) Write(dir string) error {
	if err := t.write(dir); err != nil {
		return fmt.Errorf("writing trace %s: %w", dir, err)
	}
	return nil
}

func (t *Trace) write(dir string) error {
	contents, err := t.readable()
	if err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(aside) }() // renamed by then, unless something failed
	if err := os.Chmod(aside, 0o755); err != nil {
		return err
	}
	for _, c := range contents {
		if err := writeSynced(filepath.Join(aside, c.name), c.text); err != nil {
			return err
		}
	}
	if err := syncFolder(aside); err != nil {
		return err
	}
	if err := exchange(aside, dir); err != nil {
		return err
	}
	return syncFolder(parent)
}

// replaceable says why a folder may not be overwritten.
func replaceable(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("exists and is not a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	f, err := folderFiles(dir)
	if err == nil {
		err = f.complete()
	}
	if err != nil {
		return fmt.Errorf("the folder is not empty and not a trace: %w", err)
	}
	return nil
}

// exchange puts the folder aside in the place of dir. No portable call swaps
// two folders: for a moment none is called dir, and whoever stops then finds
// the old one beside it.
func exchange(aside, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return os.Rename(aside, dir)
	}
	old := strings.Replace(aside, ".new-", ".old-", 1)
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	if err := os.Rename(aside, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	entries, err := os.ReadDir(old)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if beside(e.Name()) {
			if err := os.Rename(filepath.Join(old, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(old)
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder makes the names in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteTarGz writes the trace as one file, aside and renamed like [Trace.Write].
// The bytes depend on the trace and on the compressor alone.
func (t *Trace) WriteTarGz(path string) error {
	contents, err := t.readable()
	if err == nil {
		err = writeAside(path, func(w io.Writer) error { return pack(w, contents) })
	}
	if err != nil {
		return fmt.Errorf("writing trace %s: %w", path, err)
	}
	return nil
}

// Archive returns what [Trace.WriteTarGz] writes; [ParseArchive] reads it.
func (t *Trace) Archive() ([]byte, error) {
	var b bytes.Buffer
	contents, err := t.readable()
	if err == nil {
		err = pack(&b, contents)
	}
	if err != nil {
		return nil, fmt.Errorf("packing trace %s: %w", t.Name, err)
	}
	return b.Bytes(), nil
}

func pack(w io.Writer, contents []content) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, c := range contents {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: c.name, Size: int64(len(c.text)), Mode: 0o644, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(c.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// writeAside writes a file beside path and renames it when all is written.
func writeAside(path string, write func(io.Writer) error) error {
	f, err := createAside(path)
	if err != nil {
		return err
	}
	defer f.discard()
	if err := write(f.file); err != nil {
		return err
	}
	return f.commit()
}

// An asideFile becomes path when it is committed.
type asideFile struct {
	path string
	file *os.File
	done bool
}

func createAside(path string) (*asideFile, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("exists and is not a regular file")
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-")
	if err != nil {
		return nil, err
	}
	return &asideFile{path: path, file: f}, nil
}

func (f *asideFile) commit() error {
	err := errors.Join(f.file.Chmod(0o644), f.file.Sync(), f.file.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	return syncFolder(filepath.Dir(f.path))
}

// discard removes what was not committed.
func (f *asideFile) discard() {
	if !f.done {
		_ = f.file.Close()
		_ = os.Remove(f.file.Name())
	}
}
