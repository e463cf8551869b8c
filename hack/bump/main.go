// Command bump type-checks modules, tests and the tag e2e included, without compiling
// anything. Of other modules it reads declarations only, but for scheduler-plugins: that
// one is built on an older Kubernetes than ours. It is the first thing to run after new
// versions in go.mod.
//
//	go run . ../.. ../../lab
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: bump FOLDER ...")
		os.Exit(2)
	}
	count := 0
	for _, dir := range os.Args[1:] {
		n, err := check(dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", dir, err)
			os.Exit(1)
		}
		count += n
	}
	if count > 0 {
		fmt.Fprintf(os.Stderr, "%d errors\n", count)
		os.Exit(1)
	}
}

// check prints the errors of the module in a folder and counts them.
func check(dir string) (int, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	whole := func(name string) bool {
		return strings.HasPrefix(name, root+string(filepath.Separator)) || strings.Contains(name, "/scheduler-plugins@")
	}
	loaded, err := packages.Load(&packages.Config{
		Mode:       packages.LoadAllSyntax,
		Dir:        root,
		Tests:      true,
		BuildFlags: []string{"-tags=e2e"},
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if file != nil && !whole(name) {
				for _, d := range file.Decls {
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	if len(loaded) == 0 {
		return 0, errors.New("no packages")
	}
	seen := map[string]bool{}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			// A file without bodies has imports that nothing uses.
			if text := e.Error(); !seen[text] && (e.Pos == "" || whole(e.Pos)) {
				seen[text] = true
				fmt.Println(text)
			}
		}
	})
	return len(seen), nil
}
