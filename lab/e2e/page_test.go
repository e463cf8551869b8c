//go:build e2e

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// A reader follows a page of docs: it runs the blocks marked `sh e2e`, in
// the page's order, in a folder that holds the manifests.
type reader struct {
	c      *e2e.Cluster
	dir    string
	blocks []docBlock
	edit   func(string) string // of a block; nil = none
}

type docBlock struct{ section, text string }

var docBlocks = regexp.MustCompile("(?ms)^(?:## ([^\n]+)|```([^\n]*)\n(.*?)^```)$")

// openPage reads a page and checks that what it leaves to the reader are only
// blocks that need what a test has not.
func openPage(t *testing.T, c *e2e.Cluster, page string) *reader {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", page))
	require.NoError(t, err)
	r := &reader{c: c, dir: t.TempDir()}
	section := ""
	for _, m := range docBlocks.FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] != "":
			section = m[1]
		case m[2] == "sh e2e":
			r.blocks = append(r.blocks, docBlock{section, m[3]})
		case m[2] == "sh":
			require.Regexp(t, "make images|make release|port-forward|servicemonitor|/etc/kubernetes|make build", m[3], "%s: why is this block not run?", page)
		}
	}
	require.NotEmpty(t, r.blocks, page)
	require.NoError(t, os.CopyFS(filepath.Join(r.dir, "manifests"), os.DirFS(filepath.Join(repository, "manifests"))))
	bin := filepath.Join(r.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	for _, name := range []string{"kubectl", "sigma"} {
		require.NoError(t, os.Symlink(e2e.Program(t, name), filepath.Join(bin, name)))
	}
	return r
}

// commandsOf counts the commands of kubectl and Helm in a block.
func commandsOf(block string) int {
	return len(regexp.MustCompile(`(?m)^(kubectl|helm) `).FindAllString(block, -1))
}

// commands counts those of a section.
func (r *reader) commands(section string) int {
	count := 0
	for _, b := range r.blocks {
		if b.section == section {
			count += commandsOf(b.text)
		}
	}
	return count
}

// startBeforeWait makes a block that waits for a policy start the programs of the pods first:
// no kubelet does.
func (r *reader) startBeforeWait(t *testing.T, start func()) {
	const wait = "kubectl wait --for=condition=Active"
	r.edit = func(text string) string {
		install, rest, found := strings.Cut(text, wait)
		if !found {
			return text
		}
		r.shell(t, install)
		start()
		r.edit = nil
		return wait + rest
	}
}

// run runs the next blocks, which have to be of the section, and returns what
// they print.
func (r *reader) run(t *testing.T, section string, count int) string {
	t.Helper()
	var out strings.Builder
	for range count {
		require.NotEmpty(t, r.blocks, "no block is left")
		b := r.blocks[0]
		r.blocks = r.blocks[1:]
		require.Equal(t, section, b.section)
		if r.edit != nil {
			b.text = r.edit(b.text)
		}
		out.WriteString(r.shell(t, b.text))
	}
	return out.String()
}

func (r *reader) shell(t *testing.T, text string) string {
	t.Helper()
	command := exec.Command("bash", "-euo", "pipefail", "-c", text)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(r.c.Dir, "kubeconfig"), "HOME="+r.dir,
		"PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"), "REGISTRY=registry.example.org", "TAG=test")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", text, out)
	t.Logf("%s\n%s", text, out)
	return string(out)
}

// yamlOf is the block of a page that begins so.
func yamlOf(t *testing.T, page, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", page))
	require.NoError(t, err)
	_, block, found := strings.Cut(string(text), "```yaml\n"+begin)
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	return begin + block
}

func readManifest(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "manifests", "base", name))
	require.NoError(t, err)
	return string(text)
}
