package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/tune"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

// docs/trace-format.md shows the example's files and what a replay makes of
// them as they are.
func TestTraceFormatExample(t *testing.T) {
	const example = "../../docs/examples/hello"
	page := readText(t, "../../docs/trace-format.md")
	shown := func(language, text string) {
		t.Helper()
		require.Contains(t, page, "```"+language+"\n"+text+"```\n")
	}
	files, err := os.ReadDir(example)
	require.NoError(t, err)
	require.Len(t, files, 6)
	for _, f := range files {
		shown(strings.TrimPrefix(filepath.Ext(f.Name()), "."), readText(t, filepath.Join(example, f.Name())))
	}

	placements := filepath.Join(t.TempDir(), "placements.csv")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"replay", "--trace", example, "--policy", "bestfit", "--placements", placements}, &out, &errs)
	require.Equal(t, exitOK, code, errs.String())
	shown("csv", readText(t, placements))

	_, rest, _ := strings.Cut(page, "```yaml\napiVersion:")
	text, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	_, err = policy.Parse("trace-format.md", []byte("apiVersion:"+text))
	require.NoError(t, err)
}

// docs/own-cluster.md shows a comparison as it is.
func TestOwnClusterExample(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"compare", "--trace", "../../docs/examples/staging", "--policy", "firstfit,bestfit,mostallocated"}, &out, &errs)
	require.Equal(t, exitOK, code, errs.String())
	require.Contains(t, readText(t, "../../docs/own-cluster.md"), "```\n"+out.String()+"```\n")
}

// README.md begins with the bill of the demo's dump as it is: hack/readme-table.sh writes it.
func TestFrontPageShowsTheBill(t *testing.T) {
	t.Chdir("../..")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"savings", "--from", "docs/examples/messy.json.gz,docs/examples/messy.csv.gz"}, &out, &errs)
	require.Equal(t, exitOK, code, errs.String())
	require.Contains(t, readText(t, "README.md"), "<!-- demo:savings -->\n\n```\n"+out.String()+"```\n\n<!-- demo:end -->\n")
}

// docs/whatif.md shows an answer as it is.
func TestWhatifExample(t *testing.T) {
	page := readText(t, "../../docs/whatif.md")
	command := regexp.MustCompile(`(?m)^sigma (whatif .*)$`).FindStringSubmatch(page)
	require.Len(t, command, 2)
	t.Chdir("../..")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), strings.Fields(command[1]), &out, &errs), errs.String())
	table, _, found := strings.Cut(out.String(), "\n\n")
	require.True(t, found)
	require.Contains(t, page, "```\n"+table+"\n```\n")
}

// docs/installed-policy.md shows three decisions as they are; the last is another than Best-Fit's.
func TestInstalledPolicyPage(t *testing.T) {
	page := readText(t, "../../docs/installed-policy.md")
	commands := regexp.MustCompile(`(?m)^    sigma (explain .*)$`).FindAllStringSubmatch(page, -1)
	require.Len(t, commands, 3)
	t.Chdir("../..")
	for i, command := range commands {
		args := strings.Fields(command[1])
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), args, &out, &errs), errs.String())
		table := regexp.MustCompile(`(?ms)^ +machine .*?^score .*?$`).FindString(out.String())
		require.NotEmpty(t, table)
		require.Contains(t, page, command[0]+"\n\n```\n"+table+"\n```\n")
		if i == 2 {
			chosen := regexp.MustCompile(`(?m)^chosen +(\S+)`)
			best := strings.Fields(strings.Replace(command[1], "kubernetes-k0.yaml", "bestfit", 1))
			var other bytes.Buffer
			require.Equal(t, exitOK, run(t.Context(), best, &other, &errs), errs.String())
			require.NotEqual(t, chosen.FindStringSubmatch(out.String())[1], chosen.FindStringSubmatch(other.String())[1])
		}
	}
}

// docs/flow-simulate.md shows a comparison of orders of flows, and its sizes, as they are.
func TestFlowExample(t *testing.T) {
	page := readText(t, "../../docs/flow-simulate.md")
	command := regexp.MustCompile(`(?m)^sigma (flow simulate .*)$`).FindStringSubmatch(page)
	require.Len(t, command, 2)
	t.Chdir("../..")
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), strings.Fields(command[1]), &out, &errs), errs.String())
	require.Contains(t, page, "```\n"+out.String()+"```\n")
	require.Contains(t, page, "```csv\n"+readText(t, "docs/examples/flows/sizes.csv")+"```\n")
}

// docs/first-day.md fits one page, and its commands lead from a generated day, of a tenth
// of the nodes, to a policy file that says shadow. The commands that need a cluster are
// those of lab/e2e.TestFirstDay.
func TestFirstDay(t *testing.T) {
	page := readText(t, "../../docs/first-day.md")
	require.LessOrEqual(t, strings.Count(page, "\n"), 60, "one page")
	t.Chdir(t.TempDir())
	var said []string
	for _, m := range regexp.MustCompile(`(?m)^sigma (generate|tune) .*$`).FindAllString(page, -1) {
		args := strings.Fields(strings.Replace(m, "nodes=200", "nodes=10", 1))[1:]
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), args, &out, &errs), "%s: %s", m, errs.String())
		said = append(said, out.String())
	}
	require.Len(t, said, 2)
	const later = `It was judged on other draws of the same day, not on later days\.`
	require.Regexp(t, `^worth it: [0-9.]+ % lower cost of nodes than [^.]+\. `+later+`\n`, said[1])
	require.Regexp(t, "\n\\| `worth it: N % lower cost of nodes than [^.]+\\. "+later+"` \\| install", page)
	require.FileExists(t, "verdict.html")
	object, err := policy.Load("general.yaml")
	require.NoError(t, err)
	require.Equal(t, policy.Shadow, object.Spec.Mode)
}

// docs/first-day.md says what to do with each verdict that tune may give.
func TestFirstDayVerdicts(t *testing.T) {
	page := readText(t, "../../docs/first-day.md")
	for _, out := range []tune.Result{
		{Better: true, Against: "mostallocated", Saving: &tune.Interval{}},
		{Better: true, Rule: "bestfit", Against: "mostallocated", Saving: &tune.Interval{}},
		{Against: "mostallocated"},
		{Reason: "it has one app only", Against: "mostallocated"},
	} {
		verdict, _, found := strings.Cut(out.Sentence(), ":")
		require.True(t, found)
		require.Contains(t, page, "\n| `"+verdict+": ")
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// docs/reading-a-report.md names every column that tables show and every field
// of the JSON.
func TestReadingAReport(t *testing.T) {
	page := readText(t, "../../docs/reading-a-report.md")
	dir := t.TempDir()
	sigma := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), args, &out, &errs), errs.String())
		return out.String()
	}
	sigma("generate", "small", "--count", "2", "--out", dir)
	for _, trace := range []string{"../../docs/examples/hello", dir, filepath.Join(dir, "small-1")} {
		args := []string{"compare", "--trace", trace, "--policy", "firstfit,bestfit,worstfit,hand", "--retry=" + strconv.FormatBool(trace == dir)}
		for _, head := range heads(t, sigma(args...)) {
			if name, _, found := strings.Cut(head, "alloc "); found && name == "" {
				head = "alloc <dimension>"
			}
			require.Regexp(t, `[|,`+"`"+`] ?`+regexp.QuoteMeta(head)+` ?[|,`+"`"+`]`, page)
		}
		var comparisons any
		require.NoError(t, json.Unmarshal([]byte(sigma(append(args, "--format", "json")...)), &comparisons))
		for _, key := range keys(comparisons, nil) {
			if key != "cpu" && key != "memory" && key != "gpu" {
				require.Regexp(t, "`([a-z]+\\.)?"+key+"`", page)
			}
		}
	}
}

// heads are the column heads of the first table.
func heads(t *testing.T, text string) []string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "policy ") {
			return regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
		}
	}
	require.Fail(t, "no table", text)
	return nil
}

// keys are those of all objects in a JSON value.
func keys(value any, list []string) []string {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			list = keys(e, list)
		}
	case map[string]any:
		for k, e := range v {
			list = keys(e, append(list, k))
		}
	}
	return list
}

// docs/policies.md has a section for every name that --policy takes, in the
// order of the help, each with a formula.
func TestPoliciesPage(t *testing.T) {
	page := readText(t, "../../docs/policies.md")
	sections := strings.Split(page, "\n## ")[1:]
	var names []string
	for _, s := range sections {
		name, text, _ := strings.Cut(s, "\n")
		names = append(names, name)
		require.Contains(t, text, "\n    ", "a formula of %s", name)
	}
	require.Equal(t, compare.Names(), names)
}

// The commands of manifests/training are ones that this program takes.
func TestTrainingManifests(t *testing.T) {
	for _, file := range []string{"trainer.yaml", "workers.yaml"} {
		document, _, _ := strings.Cut(readText(t, "../../manifests/training/"+file), "\n---\n")
		var object struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		args := object.Spec.Template.Spec.Containers[0].Args
		cmd, flags, err := (&app{}).root().Find(args)
		require.NoError(t, err)
		require.Equal(t, args[0], cmd.Name())
		require.NoError(t, cmd.ParseFlags(flags))
	}
}

// docs/mpa-simulate.md shows the example's application, every load that can be made up,
// every flag and every field of the JSON; its command works.
func TestSimulateExample(t *testing.T) {
	const example = "../../docs/examples/autoscaling/web.yaml"
	page := readText(t, "../../docs/mpa-simulate.md")
	require.Contains(t, page, "```yaml\n"+readText(t, example)+"```\n")
	for _, f := range loadsim.Families() {
		require.Contains(t, page, "| `"+f.Name+"` |")
		for _, p := range f.Params {
			text := fmt.Sprintf("`%s=%.3g`", p.Name, p.Default)
			if p.Share {
				text = "`" + p.Name + "`"
			}
			_, row, _ := strings.Cut(page, "| `"+f.Name+"` |")
			row, _, _ = strings.Cut(row, "\n")
			require.Contains(t, row, text, f.Name)
		}
	}
	var out, errs bytes.Buffer
	args := []string{"mpa", "simulate", "--trace", "synthetic:flash-crowd", "--set", "high=200", "--app", example, "--hours", ".2", "--warmup", "0", "--agents", "hpa,hpa+vpa,oracle", "--format", "json"}
	require.Equal(t, exitOK, run(t.Context(), args, &out, &errs), errs.String())
	var names func(v any)
	names = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, below := range v {
				if name != "high" { // a parameter
					require.Regexp(t, "[`.]"+name+"[`\\[]", page)
				}
				names(below)
			}
		case []any:
			for _, below := range v {
				names(below)
			}
		}
	}
	var value any
	require.NoError(t, json.Unmarshal(out.Bytes(), &value))
	names(value)
}
