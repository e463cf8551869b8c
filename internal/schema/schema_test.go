package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// resolved is a schema as the command prints it, ready to check with.
func resolved(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	text, err := Of(name)
	require.NoError(t, err)
	var s jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &s))
	r, err := s.Resolve(nil)
	require.NoError(t, err)
	return r
}

// lines checks every line of a file.
func lines(t *testing.T, r *jsonschema.Resolved, path string) (n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		n++
		require.NoError(t, r.Validate(decode(t, line)), "%s:%d: %s", path, n, line)
	}
	return n
}

func decode(t *testing.T, text []byte) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}

func TestTraces(t *testing.T) {
	r := resolved(t, "trace")
	check := func(text []byte) error {
		var v any
		require.NoError(t, yaml.Unmarshal(text, &v))
		return r.Validate(decode(t, must(json.Marshal(v))))
	}
	paths, err := filepath.Glob("../../docs/examples/*/trace.yaml")
	require.NoError(t, err)
	require.Len(t, paths, 2)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, check(text), path)
	}
	for wrong, text := range map[string]string{
		"fleets": "dimensions: [cpu]\nfleets: open", "no fleet": "dimensions: [cpu]", "unknown fleet": "dimensions: [cpu]\nfleet: shut",
		"no dimension": "dimensions: []\nfleet: open", "twice": "dimensions: [cpu, cpu]\nfleet: open", "share": "dimensions: [cpu]\nfleet: open\nmaxShareOfApp: 2",
		"source": "dimensions: [cpu]\nfleet: open\nsource: here",
	} {
		require.Error(t, check([]byte(text)), wrong)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestLogs(t *testing.T) {
	r := resolved(t, "log")
	require.Greater(t, lines(t, r, "../../docs/examples/decisions.jsonl"), 10)
	for wrong, line := range map[string]string{
		"no kind": `{"seq":1,"time":1}`, "unknown kind": `{"seq":1,"time":1,"kind":"moved"}`, "unknown field": `{"seq":1,"time":1,"kind":"remove","uid":"u","why":"x"}`,
		"no machine": `{"seq":1,"time":1,"kind":"node","node":"a"}`, "a text": `{"seq":"1","time":1,"kind":"remove","uid":"u"}`,
		"no cause": `{"seq":1,"time":1,"kind":"decide","pod":"a/b","uid":"u","app":"w","node":"n"}`,
	} {
		require.Error(t, r.Validate(decode(t, []byte(line))), wrong)
	}
	require.NoError(t, r.Validate(decode(t, []byte(`{"seq":1,"time":1,"kind":"remove","uid":"u"}`))))
}

// TestJournals checks the journals of a simulation by all agents, and one that is kept.
func TestJournals(t *testing.T) {
	r := resolved(t, "journal")
	paths, err := filepath.Glob("../../mpa/journal/testdata/v2/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	dir := t.TempDir()
	run := exec.Command("go", "run", "../../cmd/sigma", "mpa", "simulate", "--trace", "synthetic:flash-crowd", "--app", "../../docs/examples/autoscaling/web.yaml",
		"--hours", "2", "--agents", "hpa,vpa,hpa+vpa,autopilot,predictive,static,learned", "--log", dir)
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	simulated, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.Greater(t, len(simulated), 5)
	for _, path := range append(paths, simulated...) {
		require.Greater(t, lines(t, r, path), 10, path)
	}
	for wrong, line := range map[string]string{
		"no decision": `{"kind":"decision"}`, "unknown kind": `{"kind":"moved"}`, "unknown field": `{"kind":"outcome","outcome":{"time":"2026-01-01T00:00:00Z","decided":"2026-01-01T00:00:00Z","result":"Applied","why":"x"}}`,
	} {
		require.Error(t, r.Validate(decode(t, []byte(line))), wrong)
	}
	require.NotEmpty(t, strings.Join(Names(), " "))
}
