package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a trace.
const (
	manifestFile = "trace.yaml"
	machinesFile = "machines.csv"
	appsFile     = "apps.csv"
	rulesFile    = "rules.csv"
	pairsFile    = "pairs.csv"
	placedFile   = "placed.csv"
	eventsFile   = "events.csv"
)

// traceFiles maps each file to whether a trace must have it.
var traceFiles = map[string]bool{
	manifestFile: true, machinesFile: true, appsFile: true, eventsFile: true,
	rulesFile: false, pairsFile: false, placedFile: false, usageFile: false,
}

// archiveSuffix marks a trace in one file.
const archiveSuffix = ".tar.gz"

// beside reports whether a file may lie next to those of a trace.
func beside(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "README") || strings.HasPrefix(name, "LICENSE")
}

// files are the files of a trace that exist, with a function that opens each.
type files map[string]func() (io.ReadCloser, error)

// add adds a file by name, or returns why it cannot belong to a trace.
func (f files) add(name string, open func() (io.ReadCloser, error)) error {
	if _, known := traceFiles[name]; !known {
		return fmt.Errorf("%s: unknown file", name)
	}
	if _, ok := f[name]; ok {
		return fmt.Errorf("%s: given twice", name)
	}
	f[name] = open
	return nil
}

// complete returns an error that names a necessary file that is missing.
func (f files) complete() error {
	for _, name := range slices.Sorted(maps.Keys(traceFiles)) {
		if f[name] == nil && traceFiles[name] {
			return fmt.Errorf("%s: missing file", name)
		}
	}
	return nil
}

// inMemory opens contents that are in memory.
func inMemory(content []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
}

// folderFiles lists a folder.
func folderFiles(dir string) (files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := files{}
	for _, e := range entries {
		name := e.Name()
		if beside(name) {
			continue
		}
		open := func() (io.ReadCloser, error) { return openRegular(filepath.Join(dir, name)) }
		if err := f.add(name, open); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// openRegular opens a regular file. It refuses a folder, and a pipe, which could block
// for ever.
func openRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", filepath.Base(name))
	}
	return os.Open(name)
}

// Load reads the trace in a folder or a .tar.gz file of at most [DefaultUnpacked] bytes.
func Load(name string) (*Trace, error) { return loadWithin(name, DefaultUnpacked) }

func loadWithin(name string, unpacked int64) (*Trace, error) {
	t, err := load(name, unpacked)
	if err != nil {
		return nil, fmt.Errorf("loading trace %s: %w", name, err)
	}
	return t, nil
}

func load(name string, unpacked int64) (*Trace, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	var f files
	var again func(file string) (io.ReadCloser, error) // opens a file later
	switch {
	case info.IsDir():
		f, err = folderFiles(name)
		again = func(file string) (io.ReadCloser, error) { return openRegular(filepath.Join(name, file)) }
	case strings.HasSuffix(name, archiveSuffix):
		var file *os.File
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // only read
		f, err = (&archive{file, unpacked}).files()
		again = func(inner string) (io.ReadCloser, error) { return openInArchive(name, inner, unpacked) }
	default:
		err = errors.New("neither a folder nor a " + archiveSuffix + " file")
	}
	if err != nil {
		return nil, err
	}
	t, err := f.read()
	if err == nil && f[usageFile] != nil {
		t.usage = &usageSource{of: t, limit: unpacked, open: func() (io.ReadCloser, error) { return again(usageFile) }}
	}
	return t, err
}

// openInArchive reads one file of an archive into memory.
func openInArchive(path, inner string, unpacked int64) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	f, err := (&archive{file, unpacked}).files()
	if err != nil {
		return nil, err
	}
	if f[inner] == nil {
		return nil, fmt.Errorf("%s: %s is no longer in it", path, inner)
	}
	r, err := f[inner]()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return inMemory(content)()
}

// ParseArchive reads the trace in the bytes of a .tar.gz file, which holds at most
// unpacked bytes.
func ParseArchive(data []byte, unpacked int64) (*Trace, error) {
	f, err := (&archive{bytes.NewReader(data), unpacked}).files()
	if err != nil {
		return nil, fmt.Errorf("reading trace: %w", err)
	}
	t, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("reading trace: %w", err)
	}
	return t, nil
}

// LoadAll reads a trace, or all traces in a folder of traces in the order of their
// file names. Hidden files, README* and LICENSE* next to them are ignored; anything
// else that is not a trace is an error. A .tar.gz file holds at most unpacked
// bytes.
func LoadAll(name string, unpacked int64) ([]*Trace, error) {
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("loading traces: %w: a trace is a folder or a .tar.gz file", err)
	}
	if err != nil {
		return nil, fmt.Errorf("loading traces: %w", err)
	}
	if !info.IsDir() || holdsTrace(name) {
		t, err := loadWithin(name, unpacked)
		if err != nil {
			return nil, err
		}
		return []*Trace{t}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("loading traces: %w", err)
	}
	var traces []*Trace
	for _, e := range entries {
		if beside(e.Name()) {
			continue
		}
		t, err := loadWithin(filepath.Join(name, e.Name()), unpacked)
		if err != nil && len(traces) == 0 {
			err = fmt.Errorf("%w (%s has no trace.yaml, so everything in it is read as a trace)", err, name)
		}
		if err != nil {
			return nil, err
		}
		traces = append(traces, t)
	}
	if len(traces) == 0 {
		return nil, fmt.Errorf("loading traces: %s holds none", name)
	}
	return traces, nil
}

// holdsTrace reports whether a folder is meant as one trace, complete or not.
func holdsTrace(dir string) bool {
	for name := range traceFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
