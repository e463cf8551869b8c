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

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// Write writes the trace as the folder dir, which is never half written. A trace in
// dir is replaced, though README*, LICENSE* and hidden files stay; any other folder
// that is not empty is refused.
func (t *Trace) Write(dir string) error {
	contents, err := t.complete()
	if err == nil {
		err = replaceable(dir)
	}
	if err != nil {
		return fmt.Errorf("writing trace %s: %w", dir, err)
	}
	return durable.WriteDir(dir, beside, func(dir string) error {
		for _, c := range contents {
			if err := os.WriteFile(filepath.Join(dir, c.name), c.text, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

// complete are the files that a trace is written as: the canonical ones, and its usage.
func (t *Trace) complete() ([]content, error) {
	contents, err := t.readable()
	if err != nil {
		return nil, err
	}
	return t.withUsage(contents)
}

// replaceable returns an error with the reason if a folder may not be overwritten.
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

// WriteTarGz writes the trace as one file, never half written. The bytes depend on the
// trace and on the compressor alone.
func (t *Trace) WriteTarGz(path string) error {
	contents, err := t.complete()
	if err != nil {
		return fmt.Errorf("writing trace %s: %w", path, err)
	}
	return durable.WriteFile(path, func(w io.Writer) error { return pack(w, contents) })
}

// Archive returns the bytes that [Trace.WriteTarGz] writes for a trace without usage;
// [ParseArchive] reads them.
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
