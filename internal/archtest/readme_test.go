package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The map in README.md has a line for each package of the module, and no other.
func TestMapInReadme(t *testing.T) {
	root := filepath.Join("..", "..")
	packages, err := parse(root)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(packages, func(_ string, files []source) bool {
		return !slices.ContainsFunc(files, func(s source) bool { return !s.test() })
	})
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The map\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			listed[name] = true
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		if !listed[pkg] {
			t.Errorf("README.md: package %s is not in the map", pkg)
		}
		delete(listed, pkg)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("README.md: the map lists %s, which is no package", name)
	}
}
