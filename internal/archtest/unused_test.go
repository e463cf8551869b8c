package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPlantedUnused(t *testing.T) {
	files := map[string][]source{
		"cmd/x":         nil,
		"core":          nil,
		"core/other":    nil,
		"core/part":     nil,
		"core/rest/one": nil,
	}
	got := unused(files, []row{
		{"core", []string{"core/part", "core/gone"}},
		{"core/...", []string{"core/...", "core/rest/...", "core/rest"}},
		{"core/part", nil},
		{"core/part/...", nil},
		{"core/rest/one", nil},
		{"learn/...", []string{"core", "learn/..."}},
		{"cmd/...", []string{"..."}},
	}, []law{
		{text: "first", in: []string{"core/...", "old/..."}, except: []string{"cmd/...", "co"}},
		{text: "second", in: []string{"..."}, forbidden: []string{module + "/core", module + "/new/...", "k8s.io/..."}},
	})
	want := []string{
		"the row core allows core/gone, and no package is called so",
		"the row core/... allows core/rest, and no package is called so",
		"the row core/part/... counts for no package",
		"the row learn/... counts for no package",
		"the row learn/... allows learn/..., and no package is called so",
		`the law "first" names old/..., and no package is called so`,
		`the law "first" names co, and no package is called so`,
		`the law "second" names new/..., and no package is called so`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// unused returns the rows of the table that count for no package, and the names in the
// table and the laws that no package has.
func unused(packages map[string][]source, table []row, laws []law) (problems []string) {
	exists := func(pattern string) bool {
		for pkg := range packages {
			if matches(pattern, pkg) {
				return true
			}
		}
		return false
	}
	used := map[int]bool{}
	for pkg := range packages {
		used[mostSpecific(table, pkg)] = true
	}
	for i, r := range table {
		if !used[i] {
			problems = append(problems, fmt.Sprintf("the row %s counts for no package", r.pkg))
		}
		for _, may := range r.may {
			if !exists(may) {
				problems = append(problems, fmt.Sprintf("the row %s allows %s, and no package is called so", r.pkg, may))
			}
		}
	}
	for _, l := range laws {
		names := slices.Concat(l.in, l.except)
		for _, path := range l.forbidden {
			if folder, ours := inModule(path); ours && folder != laboratory { // that is a module of its own
				names = append(names, folder)
			}
		}
		for _, name := range names {
			if !exists(name) {
				problems = append(problems, fmt.Sprintf("the law %q names %s, and no package is called so", l.text, name))
			}
		}
	}
	return problems
}
