package archtest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestArchitecture(t *testing.T) {
	files, err := parse(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(files["binpack"]) == 0 || len(files["internal/archtest"]) == 0 {
		t.Fatalf("the walk missed packages that are there: found %v", slices.Sorted(maps.Keys(files)))
	}
	for _, v := range check(files) {
		t.Error(v)
	}
	for _, u := range unused(files, table, laws) {
		t.Error(u)
	}
}

func TestPlantedViolations(t *testing.T) {
	const ours = module + "/"
	tests := []struct {
		name  string
		files map[string][]string // file → imports
		want  []string            // a part of each violation, in order; none for a sound tree
	}{
		{
			name: "sound",
			files: map[string][]string{
				"binpack/state.go":            {"fmt"},
				"binpack/state_test.go":       {"testing", ours + "binpack/policy"},
				"binpack/plan/best.go":        {ours + "binpack", ours + "binpack/bound"},
				"plugins/kube/item.go":        {ours + "binpack", "k8s.io/api/core/v1"},
				"cmd/sigma/main.go":           {ours + "plugins/kube", "k8s.io/client-go/rest"},
				"cmd/sigma-scheduler/main.go": {"k8s.io/kubernetes/cmd/kube-scheduler/app", "github.com/golang/glog"},
				"internal/train/pool/pool.go": {ours + "swarm", ours + "cerebro", ours + "internal/train"},
				"binpack/testdata/src/x.go":   {"k8s.io/api/core/v1"},
				"lab/oracle/go.mod":           nil,
				"lab/oracle/oracle.go":        {"k8s.io/kubernetes/pkg/scheduler"},
				"test/e2e/e2e_test.go":        {"k8s.io/client-go/rest"},
				"out/try/try.go":              {ours + "swarm", ours + "cerebro"},
				"bin/tool.go":                 {ours + "swarm"},
				"binpack/bound/volume.go":     {"k8s.io.example.org/name/that/only/begins/alike"},
			},
		},
		{
			name:  "not in the table",
			files: map[string][]string{"binpack/policy/best.go": {ours + "swarm"}},
			want:  []string{"binpack/policy/best.go: binpack/policy may not import swarm"},
		},
		{
			name:  "unknown package",
			files: map[string][]string{"helpers/strings.go": {"strings"}},
			want:  []string{"package helpers is not in the table"},
		},
		{
			name:  "out below a package is one like any other",
			files: map[string][]string{"binpack/out/x.go": nil},
			want:  []string{"package binpack/out is not in the table"},
		},
		{
			name:  "unknown package below a known one",
			files: map[string][]string{"binpack/heap/heap.go": nil},
			want:  []string{"package binpack/heap is not in the table"},
		},
		{
			name:  "Kubernetes in the core",
			files: map[string][]string{"cerebro/run.go": {"k8s.io/apimachinery/pkg/api/resource"}},
			want:  []string{"cerebro/run.go: imports k8s.io/apimachinery/pkg/api/resource: the core knows no Kubernetes"},
		},
		{
			name:  "Kubernetes in a test of the core",
			files: map[string][]string{"swarm/swarm_test.go": {"sigs.k8s.io/yaml"}},
			want:  []string{"swarm/swarm_test.go: imports sigs.k8s.io/yaml: the core knows no Kubernetes"},
		},
		{
			name: "Kubernetes in a test of the core, by way of a plugin",
			files: map[string][]string{
				"binpack/state_test.go": {ours + "plugins/kube"},
				"plugins/kube/item.go":  {"k8s.io/api/core/v1"},
			},
			want: []string{"binpack/state_test.go: reaches k8s.io/api/core/v1 by way of plugins/kube: the core knows no Kubernetes"},
		},
		{
			name:  "behind a build tag",
			files: map[string][]string{"binpack/state_windows.go": {"k8s.io/api/core/v1"}},
			want:  []string{"the core knows no Kubernetes"},
		},
		{
			name:  "swarm and cerebro",
			files: map[string][]string{"swarm/swarm_test.go": {ours + "cerebro"}, "cerebro/run.go": {ours + "swarm"}},
			want: []string{
				"cerebro/run.go: cerebro may not import swarm",
				"cerebro/run.go: imports github.com/sigma-scheduler/sigma/swarm: cerebro does not know swarm",
				"swarm/swarm_test.go: imports github.com/sigma-scheduler/sigma/cerebro: swarm does not know cerebro",
			},
		},
		{
			name: "the scheduler in the command line, by way of two packages",
			files: map[string][]string{
				"cmd/sigma/main.go":     {ours + "cmd/sigma/live"},
				"cmd/sigma/live/x.go":   {ours + "plugins/sigma"},
				"plugins/sigma/plug.go": {"k8s.io/kubernetes/pkg/scheduler/framework"},
			},
			want: []string{
				"cmd/sigma/main.go: reaches k8s.io/kubernetes/pkg/scheduler/framework by way of cmd/sigma/live → plugins/sigma: cmd/sigma builds without",
				"cmd/sigma/live/x.go: reaches k8s.io/kubernetes/pkg/scheduler/framework by way of plugins/sigma: cmd/sigma builds without",
			},
		},
		{
			name:  "the laboratory in the product",
			files: map[string][]string{"internal/tune/tune_test.go": {ours + "lab/records"}},
			want:  []string{"internal/tune/tune_test.go: imports github.com/sigma-scheduler/sigma/lab/records: the product does not import the laboratory"},
		},
		{
			name:  "glog",
			files: map[string][]string{"plugins/kube/item.go": {"github.com/golang/glog"}},
			want:  []string{"plugins/kube/item.go: imports github.com/golang/glog: glog registers flags"},
		},
		{
			name:  "swarm from an internal package that is not train",
			files: map[string][]string{"internal/tune/tune.go": {ours + "swarm"}},
			want:  []string{"internal/tune may not import swarm"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, imports := range tt.files {
				write(t, filepath.Join(root, name), imports)
			}
			files, err := parse(root)
			if err != nil {
				t.Fatal(err)
			}
			got := check(files)
			if len(got) != len(tt.want) {
				t.Fatalf("got %d violations, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("violation %d:\n%s\ndoes not say\n%s", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "x.go"), []byte("package x\n\nimport oops\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(root); err == nil {
		t.Fatal("a file that does not parse was passed over")
	}
}

func write(t *testing.T, name string, imports []string) {
	t.Helper()
	var b strings.Builder
	if strings.HasSuffix(name, "_windows.go") {
		b.WriteString("//go:build windows\n\n")
	}
	b.WriteString("package p\n\n")
	for _, i := range imports {
		fmt.Fprintf(&b, "import _ %q\n", i)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A source is the part of a Go file that this package looks at.
type source struct {
	name    string // below the root, with slashes
	imports []string
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// parse returns the Go files of the module at root by package folder, leaving
// out what the go command leaves out: testdata, vendor, names that begin with a
// dot or an underscore, and folders with a go.mod of their own; and, at the top,
// what git ignores.
func parse(root string) (map[string][]source, error) {
	packages := map[string][]source{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && (skipped(name) || filepath.Dir(name) == root && throwAway[entry.Name()]) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		s := source{name: filepath.ToSlash(rel)}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", rel, spec.Path.Value, err)
			}
			s.imports = append(s.imports, imported)
		}
		pkg := path.Dir(s.name)
		packages[pkg] = append(packages[pkg], s)
		return nil
	})
	return packages, err
}

// throwAway holds the top-level folders of .gitignore, where experiments live.
var throwAway = map[string]bool{"out": true, "bin": true}

func skipped(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || base == "vendor" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// check returns every breach of the table and the laws, in the order of packages
// and files.
func check(packages map[string][]source) []string {
	var violations []string
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		files := packages[pkg]
		may, known := allowed(pkg)
		if !known && !slices.ContainsFunc(files, func(s source) bool { return !s.test() }) {
			known = true // nothing but tests
		}
		if !known {
			violations = append(violations,
				fmt.Sprintf("package %s is not in the table of internal/archtest: say there what it may import", pkg))
		}
		for _, s := range files {
			if known && !s.test() {
				violations = append(violations, strangers(pkg, s, may)...)
			}
			violations = append(violations, breaches(packages, pkg, s)...)
		}
	}
	return violations
}

// allowed returns what the most specific row for pkg lets it import.
func allowed(pkg string) (may []string, known bool) {
	i := mostSpecific(table, pkg)
	if i < 0 {
		return nil, false
	}
	return table[i].may, true
}

// mostSpecific returns the row that counts for pkg: its own before that of a family,
// a smaller family before a larger one; -1 = there is none.
func mostSpecific(table []row, pkg string) int {
	best := -1
	for i, r := range table {
		if r.pkg == pkg {
			return i
		}
		if matches(r.pkg, pkg) && (best < 0 || len(r.pkg) > len(table[best].pkg)) {
			best = i
		}
	}
	return best
}

// strangers returns the imports of ours in s that its package's row lacks.
func strangers(pkg string, s source, may []string) []string {
	var violations []string
	for _, imported := range s.imports {
		if other, ours := inModule(imported); ours && !matchesAny(may, other) {
			violations = append(violations, fmt.Sprintf("%s: %s may not import %s", s.name, pkg, other))
		}
	}
	return violations
}

// breaches returns the laws that s breaks by itself or through what it imports;
// for one law the nearest forbidden import only.
func breaches(packages map[string][]source, pkg string, s source) []string {
	var violations []string
	for _, l := range laws {
		if !matchesAny(l.in, pkg) || matchesAny(l.except, pkg) || s.test() && !l.tests {
			continue
		}
		found, chain := reach(packages, s, l.forbidden)
		switch {
		case found == "":
		case len(chain) == 0:
			violations = append(violations, fmt.Sprintf("%s: imports %s: %s", s.name, found, l.text))
		default:
			violations = append(violations,
				fmt.Sprintf("%s: reaches %s by way of %s: %s", s.name, found, strings.Join(chain, " → "), l.text))
		}
	}
	return violations
}

// reach searches, breadth first, the imports of s and of our packages behind
// them for a forbidden one; chain holds our packages on the way to it.
func reach(packages map[string][]source, s source, forbidden []string) (found string, chain []string) {
	type stop struct {
		imports []string
		chain   []string
	}
	seen := map[string]bool{}
	queue := []stop{{imports: s.imports}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, imported := range at.imports {
			if matchesAny(forbidden, imported) {
				return imported, at.chain
			}
			other, ours := inModule(imported)
			if !ours || seen[other] {
				continue
			}
			seen[other] = true
			next := stop{chain: append(slices.Clone(at.chain), other)}
			for _, file := range packages[other] {
				if !file.test() {
					next.imports = append(next.imports, file.imports...)
				}
			}
			queue = append(queue, next)
		}
	}
	return "", nil
}

// inModule returns the folder of an import path of this module.
func inModule(imported string) (folder string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// matches says whether name is pattern, or lies below it for a pattern x/....
func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	family, ok := strings.CutSuffix(pattern, "/...")
	return name == family || ok && strings.HasPrefix(name, family+"/")
}
