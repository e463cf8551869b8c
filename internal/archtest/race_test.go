package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unraced are packages of the laboratory that start goroutines, or lock, and whose tests `make race`
// leaves out, with the reason.
var unraced = map[string]string{
	"e2e": "its tests need a control plane, and leave the detector out of the programs that they start",
}

// TestRaceDetectorOnGoroutines compares the Makefile's lists with the code of the product and of the laboratory.
func TestRaceDetectorOnGoroutines(t *testing.T) {
	for _, problem := range append(checkRaced(t, tree, ".", nil), checkRaced(t, tree, "lab", unraced)...) {
		t.Error(problem)
	}
}

func TestPlantedGoroutines(t *testing.T) {
	const makefile = "RACE := ./a/... ./b \\\n\t./gone\nRACE_LAB := ./a ./c\n\nother: ./no\n\techo ./nor\n\nrace: ## help\n\tgo test $(RACE)\n\tgo test -run X ./part\n\nlast: ./this\n"
	files := planted(map[string]string{
		"Makefile":          makefile,
		"a/a.go":            "package a\n\nfunc f() { go f() }\n",
		"a/below/a.go":      "package below\n\nimport _ \"golang.org/x/sync/errgroup\"\n",
		"b/b.go":            "package b\n\nimport _ \"fmt\"\n",
		"c/c.go":            "package c\n\nimport \"sync\"\n\nvar mu sync.Mutex\n",
		"d/d.go":            "package d\n\nimport \"context\"\n\nvar _ = context.AfterFunc\n",
		"e/e_test.go":       "package e\n\nfunc f() { go f() }\n",
		"f/f.go":            "package f\n\nfunc f() { go f() }\n",
		"g/g.go":            "package g\n",
		"part/x.go":         "package part\n\nimport _ \"sync/atomic\"\n",
		"go.mod":            "module y\n",
		"hack/x/go.mod":     "module x\n",
		"lab/go.mod":        "module y/lab\n",
		"lab/a/a.go":        "package a\n\nfunc f() { go f() }\n",
		"lab/b/b.go":        "package b\n\nimport _ \"sync\"\n",
		"lab/c/c.go":        "package c\n",
		"lab/own/go.mod":    "module y/lab/own\n",
		"lab/own/main.go":   "package main\n\nfunc main() { go main() }\n",
		"hack/x/main.go":    "package main\n\nfunc main() { go main() }\n",
		"c/testdata/x/x.go": "package x\n\nfunc f() { go f() }\n",
	})
	got := append(checkRaced(t, files, ".", map[string]string{"f": "a reason", "g": "no reason any more"}), checkRaced(t, files, "lab", nil)...)
	want := []string{
		"Makefile: b is in RACE, but starts no goroutine and locks nothing: take it off",
		"Makefile: c (c/c.go:3) is not in RACE",
		"Makefile: d (d/d.go:5) is not in RACE",
		"Makefile: gone is in RACE, but starts no goroutine and locks nothing: take it off",
		"g starts no goroutine and locks nothing: take it off the exceptions",
		"Makefile: b (lab/b/b.go:3) is not in RACE_LAB",
		"Makefile: c is in RACE_LAB, but starts no goroutine and locks nothing: take it off",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	raceLists = map[string]string{".": "RACE", "lab": "RACE_LAB"} // by module
	// raceRecipe has parts of packages of the product that are not in RACE.
	raceRecipe = regexp.MustCompile(`(?m)^race:.*\n((?:\t.*\n)+)`)
	folder     = regexp.MustCompile(`(?:^|\s)\./(\S+)`)
)

// checkRaced returns packages of a module that share memory between goroutines and that `make race`
// leaves out, and packages that it runs without need.
func checkRaced(t *testing.T, tree fs.FS, module string, except map[string]string) (problems []string) {
	t.Helper()
	shared, name := sharing(t, tree, module), raceLists[module]
	lists := []*regexp.Regexp{regexp.MustCompile(`(?m)^` + name + ` := ((?:.*\\\n)*.*)$`)}
	if module == "." {
		lists = append(lists, raceRecipe)
	}
	makefile, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var raced []string
	for _, list := range lists {
		text := list.FindSubmatch(makefile)
		if text == nil {
			t.Fatalf("Makefile: nothing like %s", list)
		}
		for _, m := range folder.FindAllSubmatch(text[1], -1) {
			raced = append(raced, string(m[1]))
		}
	}
	for _, pattern := range raced {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(shared)), func(pkg string) bool { return matches(pattern, pkg) }) {
			problems = append(problems, fmt.Sprintf("Makefile: %s is in %s, but starts no goroutine and locks nothing: take it off", pattern, name))
		}
	}
	for pkg, where := range shared {
		if !matchesAny(raced, pkg) && except[pkg] == "" {
			problems = append(problems, fmt.Sprintf("Makefile: %s (%s) is not in %s", pkg, where, name))
		}
	}
	for pkg := range except {
		if shared[pkg] == "" {
			problems = append(problems, pkg+" starts no goroutine and locks nothing: take it off the exceptions")
		}
	}
	slices.Sort(problems)
	return problems
}

// sharing returns the packages of a module, by their folders in it, that start a goroutine or import
// a package that serves several, with a line that does. Callbacks of a package's server or informer
// run in goroutines of others: such a package locks.
func sharing(t *testing.T, tree fs.FS, module string) map[string]string {
	t.Helper()
	shared := map[string]string{}
	for _, p := range readPages(t, tree) {
		pkg := path.Dir(p.name)
		if strings.HasSuffix(p.name, "_test.go") || moduleOf(tree, pkg) != module {
			continue
		}
		if pkg = strings.TrimPrefix(pkg, module+"/"); shared[pkg] != "" {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, p.name, strings.Join(p.lines, "\n"), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			found := false
			switch n := node.(type) {
			case *ast.GoStmt:
				found = true
			case *ast.ImportSpec:
				name, err := strconv.Unquote(n.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = name == "sync" || name == "sync/atomic" || strings.HasPrefix(name, "golang.org/x/sync/")
			case *ast.SelectorExpr:
				found = n.Sel.Name == "AfterFunc"
			}
			if found && shared[pkg] == "" {
				shared[pkg] = fmt.Sprintf("%s:%d", p.name, files.Position(node.Pos()).Line)
			}
			return true
		})
	}
	return shared
}

// moduleOf returns the nearest folder with a go.mod, the folder itself or above.
func moduleOf(tree fs.FS, folder string) string {
	for folder != "." {
		if _, err := fs.Stat(tree, path.Join(folder, "go.mod")); err == nil {
			return folder
		}
		folder = path.Dir(folder)
	}
	return folder
}
