package placement

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/records"
)

// configure is a configuration below a temporary folder.
func configure(t *testing.T, program string) Config {
	t.Helper()
	dir := t.TempDir()
	return Config{
		Docs: filepath.Join(dir, "docs"), Out: filepath.Join(dir, "out"), Now: time.Now,
		Runner: records.Runner{Sigma: program, Log: &bytes.Buffer{}},
	}
}

// buildSigma builds the command line.
func buildSigma(t *testing.T) string { return build(t, "../../../cmd/sigma") }

func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(source))
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, source).CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// tiny measures two instances as the sections do.
var tiny = Section{
	Name: "tiny", title: "Tiny", about: "Two instances.",
	run: func(b *bench) error {
		dir, err := b.generate("small", "small", 950_000, 2)
		if err != nil {
			return err
		}
		k, err := b.compare(dir, "bestfit,firstfit,learned", 2, "--knowledge", "K1")
		if err != nil {
			return err
		}
		mean, se := k.machines("learned")
		b.line(records.Line{
			Work: "tiny", Figure: "machines", Value: mean, SE: se, Peers: peers(k.machines, "%.2f", "bestfit"),
			Must: records.AtLeast(15), Aim: records.AtMost(15),
		})
		gap, _ := k.gap("learned")
		b.line(records.Line{Work: "tiny", Figure: "gap", Value: gap - 100*(mean/15-1), Must: records.AtMost(1e-9)})
		less := k.less("learned", "bestfit")
		own, _ := k.machines("bestfit")
		b.line(records.Line{Work: "tiny", Figure: "fewer, %", Value: less - 100*(1-mean/own), Must: records.AtMost(1e-9)})
		if _, err := b.convert("or3", "funsearch", []string{"funsearch-binpack/or3.json"}); !errors.Is(err, errNoData) {
			return errors.New("there is no data set")
		}
		b.leftOut("or3")
		return nil
	},
}

// A section runs the real program, and its page has figures, verdicts and commands.
func TestSection(t *testing.T) {
	cfg := configure(t, buildSigma(t))
	require.NoError(t, tiny.Run(t.Context(), cfg))
	text, err := os.ReadFile(filepath.Join(cfg.Docs, "results", "tiny.md"))
	require.NoError(t, err)
	page := strings.ReplaceAll(string(text), cfg.Out, "out")

	tables, err := records.ParseTables(page)
	require.NoError(t, err)
	require.Len(t, tables, 1)
	require.Len(t, tables[0].Rows, 3)
	row := tables[0].Rows[0]
	assert.Equal(t, []string{"tiny", "machines"}, row[:2])
	assert.Regexp(t, `^1[5-8]\.\d\d ± `, row[2])
	assert.Regexp(t, `^bestfit (19|2[0-2])\.\d\d$`, row[3])
	assert.Equal(t, "must", row[6])
	assert.Equal(t, "must", tables[0].Rows[1][6], "the optimum of every instance is 15")
	assert.Equal(t, "must", tables[0].Rows[2][6])

	assert.Contains(t, page, "# Tiny\n\nTwo instances.\n")
	assert.Contains(t, page, "\n- or3: left out, SIGMA_DATA is not set\n")
	assert.Regexp(t, "\n[0-9]+ CPU-seconds, `make records SECTION=tiny`, sigma \\S+ go.*:\n", page)
	assert.Contains(t, page, "\nbin/sigma generate small --seed 950000 --count 2 --out out/tiny/small\n")
	assert.Contains(t, page, "\nbin/sigma compare --trace out/tiny/small --policy bestfit,firstfit,learned --orders 2 --seed 7 --format json --knowledge K1\n")
}

// A command that fails, or an interrupt, fails the run and leaves the old page.
func TestSectionFails(t *testing.T) {
	fail := filepath.Join(t.TempDir(), "sigma")
	require.NoError(t, os.WriteFile(fail, []byte("#!/bin/sh\necho no such thing >&2\nexit 1\n"), 0o700))
	interrupted, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		run  func(*bench) error
		want string
	}{
		{"failed", t.Context(), tiny.run, "section broken: bin/sigma generate small --seed 950000 --count 2"},
		{"interrupted", interrupted, func(*bench) error { cancel(); return nil }, "context canceled"},
	} {
		cfg := configure(t, fail)
		page := filepath.Join(cfg.Docs, "results", "broken.md")
		require.NoError(t, os.MkdirAll(filepath.Dir(page), 0o755))
		require.NoError(t, os.WriteFile(page, []byte("old"), 0o600))
		err := (&Section{Name: "broken", run: c.run}).Run(c.ctx, cfg)
		require.ErrorContains(t, err, c.want, c.name)
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Equal(t, "old", string(text), c.name)
		files, err := os.ReadDir(filepath.Dir(page))
		require.NoError(t, err)
		assert.Len(t, files, 1, c.name)
	}
}

// The page of shipped policies shows what the command line prints, below its command.
func TestShow(t *testing.T) {
	echo := filepath.Join(t.TempDir(), "sigma")
	require.NoError(t, os.WriteFile(echo, []byte("#!/bin/sh\nprintf 'text\\n\\n## trace\\n\\n| a |\\n| --- |\\n'\n"), 0o700))
	runner := &records.Runner{Sigma: echo, Log: &bytes.Buffer{}}
	b := &bench{ctx: t.Context(), runner: runner, dir: "dir", table: records.LineTable()}
	require.NoError(t, b.show("part", knows("small", "bestfit", 2, "K0", "K1")))
	page := b.page(&shipped, "sigma 1").String()
	assert.Contains(t, page, "\n## part\n\n```\nbin/sigma compare --trace dir/small --policy bestfit --orders 2 --seed 7 --format markdown --knowledge K0\n```\n\ntext\n\n### trace\n\n| a |\n| --- |\n\n```\nbin/sigma compare")
}

// Sections run tests and benchmarks of other packages by name.
func TestNamesOfOthers(t *testing.T) {
	for folder, name := range map[string]string{
		populationPackage:       "func BenchmarkPopulation(",
		"internal/train/remote": "func TestTwoWorkersAreFaster(",
		"internal/cli":          "func TestKills(",
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", folder, "*_test.go"))
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(files, func(f string) bool {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			return strings.Contains(string(text), name)
		}), "%s: no %s", folder, name)
	}
}

func TestReadFront(t *testing.T) {
	path := filepath.Join(t.TempDir(), "front.csv")
	require.NoError(t, os.WriteFile(path, []byte("policy,machines,balance,util:cpu\na,1,0.5,9\nb,2,0.25,9\n"), 0o600))
	points, err := readFront(path)
	require.NoError(t, err)
	assert.Equal(t, [][]float64{{1, .5}, {2, .25}}, points)
	// The box is [1, 2] × [.25, .5]: each point lies on its edge and dominates nothing.
	share, err := dominated(points, points)
	require.NoError(t, err)
	assert.InDelta(t, 0, share, 1e-12)
	share, err = dominated([][]float64{{1, .25}}, points)
	require.NoError(t, err)
	assert.InDelta(t, 1, share, 1e-12)
}

// Two bins of 10 for 6, 6, 4, 4 by any rule that fills bins.
func TestFunsearchPacksAll(t *testing.T) {
	assert.Equal(t, 2, funsearchOr3(10, []int64{6, 6, 4, 4}))
	assert.Equal(t, 4, funsearchWeibull(10, []int64{6, 6, 6, 6}))
}
