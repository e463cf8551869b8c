package archtest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The list in docs/map.md has a line for each package of the module, and no other.
func TestMapOfPackages(t *testing.T) {
	root := filepath.Join("..", "..")
	packages, err := parse(root)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(packages, func(_ string, files []source) bool {
		return !slices.ContainsFunc(files, func(s source) bool { return !s.test() })
	})
	text, err := os.ReadFile(filepath.Join(root, "docs", "map.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The packages\n")
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
			t.Errorf("docs/map.md: package %s is not in the list", pkg)
		}
		delete(listed, pkg)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("docs/map.md: the list has %s, which is no package", name)
	}
}

// The front page is one that a reader takes in.
func TestLengthOfReadme(t *testing.T) {
	const most = 900
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > most {
		t.Errorf("README.md: %d words, at most %d", n, most)
	}
}

// Each name that hack/policies.sh trains by default is a function there, and each shipped file but
// those set by hand has one, which `make policies` runs.
func TestShippedPoliciesAreMade(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "hack", "policies.sh"))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+)\(\) \{`).FindAllSubmatch(text, -1) {
		made[string(m[1])] = true
	}
	_, list, _ := strings.Cut(string(text), `for policy in "${@:-`)
	list, _, ok := strings.Cut(list, `}"`)
	if !ok {
		t.Fatal("hack/policies.sh: no list of all policies")
	}
	names := strings.Fields(list)
	for _, name := range names {
		if !made[name] {
			t.Errorf("hack/policies.sh: %s is in the list, and no function makes it", name)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, target, _ := strings.Cut(string(makefile), "hack/policies.sh $(or $(POLICIES),")
	target, _, _ = strings.Cut(target, ")")
	files, err := filepath.Glob(filepath.Join(root, "benchdata", "policies", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	shipped := len(files)
	research, err := filepath.Glob(filepath.Join(root, "lab", "policies", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, research...)
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		byHand := strings.HasPrefix(name, "hand-") || strings.HasPrefix(name, "rollout-") || name == "general-k2"
		name = strings.TrimPrefix(name, "general-")
		if !byHand && !slices.Contains(names, name) {
			t.Errorf("hack/policies.sh: nothing makes %s", file)
		}
		if !byHand && i < shipped && !slices.Contains(strings.Fields(target), name) {
			t.Errorf("Makefile: make policies does not make %s", file)
		}
	}
}

// Pages that readers find by docs/README.md must all be there, and what they link to
// must exist.
func TestPagesAreLinked(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, problem := range checkPages(t, os.DirFS(root)) {
		t.Error(problem)
	}
}

func TestPlantedPages(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"README.md":           "[docs](docs/README.md) and [the web](https://example.org/x.md)",
		"CONTRIBUTING.md":     "[gone](docs/gone.md)",
		"docs/README.md":      "# D\n[results](results.md) [b](a.md#the-b)",
		"docs/results.md":     "[one](results/one.md)",
		"docs/results/one.md": "[here](#not-here)\n# One `x`, two\n[there](#one-x-two)",
		"docs/a.md":           "# The b\n",
		"docs/alone.md":       "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := checkPages(t, os.DirFS(root))
	want := []string{
		"CONTRIBUTING.md: docs/gone.md: no such file",
		"docs/alone.md: not linked from docs/README.md or docs/results.md",
		"docs/results/one.md: #not-here: no such heading",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// checkPages returns pages below docs that neither the list of pages nor that of results
// links to, and links that lead nowhere.
func checkPages(t *testing.T, tree fs.FS) []string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || throwAway[name] || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		pages[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{"docs/README.md": true}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		for _, m := range link.FindAllStringSubmatch(pages[name], -1) {
			file, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			to := name
			if file != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if name == "docs/README.md" || name == "docs/results.md" {
				linked[to] = true
			}
			if _, err := fs.Stat(tree, to); err != nil {
				problems = append(problems, name+": "+to+": no such file")
			} else if text, ok := pages[to]; ok && heading != "" && !slices.Contains(headings(text), heading) {
				problems = append(problems, name+": "+m[1]+": no such heading")
			}
		}
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/examples/") {
			if _, listed := linked[name]; !listed {
				linked[name] = false
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(linked)) {
		if !linked[name] {
			problems = append(problems, name+": not linked from docs/README.md or docs/results.md")
		}
	}
	slices.Sort(problems)
	return problems
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors of a page's headings as GitHub makes them.
func headings(text string) []string {
	var list []string
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if title := strings.TrimLeft(line, "#"); !fenced && title != line {
			title = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			list = append(list, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return list
}
