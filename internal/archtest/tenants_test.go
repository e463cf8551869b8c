package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	testsItself = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

// Each row of docs/tenants.md has five cells and names tests that are there, and each test with two tenants is in the table.
func TestTenantsAreTested(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "tenants.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "out", "bin", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testsItself.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named, rows := map[string]bool{}, 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| shared") {
			continue
		}
		rows++
		tests := namedTest.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 5 || len(tests) == 0 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("docs/tenants.md: want 5 cells, the last with tests: %s", line)
		}
		for _, m := range tests {
			if named[m[1]] = true; !there[m[1]] {
				t.Errorf("docs/tenants.md: there is no test %s", m[1])
			}
		}
	}
	if rows < 15 {
		t.Errorf("docs/tenants.md: %d rows were found", rows)
	}
	for name := range there {
		if strings.HasPrefix(name, "TestTwoTenants") && !named[name] {
			t.Errorf("docs/tenants.md: the table lacks %s", name)
		}
	}
}
