// Package policies holds the policies that Sigma ships, as files compiled into
// the command line. Their names are explained in README.md.
package policies

import (
	"embed"
	"io/fs"
)

// The pattern is wider than *.yaml, because one that matches nothing does not compile.
//
//go:embed *
var shipped embed.FS

// Files holds the shipped policies: every *.yaml of this folder, and in the laboratory those of its own.
var Files = Folders{shipped}

// Folders are read as one: the first that has a file counts.
type Folders []fs.FS

// Open implements [fs.FS].
func (f Folders) Open(name string) (fs.File, error) {
	var file fs.File
	err := error(&fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
	for _, folder := range f {
		if file, err = folder.Open(name); err == nil {
			break
		}
	}
	return file, err
}

// ReadFile implements [fs.ReadFileFS].
func (f Folders) ReadFile(name string) ([]byte, error) {
	for _, folder := range f[:len(f)-1] {
		if text, err := fs.ReadFile(folder, name); err == nil {
			return text, nil
		}
	}
	return fs.ReadFile(f[len(f)-1], name)
}

// Glob implements [fs.GlobFS].
func (f Folders) Glob(pattern string) ([]string, error) {
	var all []string
	for _, folder := range f {
		names, err := fs.Glob(folder, pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}
