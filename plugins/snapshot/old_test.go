package snapshot

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// oldRecording is what the version before the present format wrote when it recorded
// the first looks of oldLife; beside it is the trace that it made of that.
const oldRecording = "testdata/old/recording.jsonl"

// oldLife calls look with each look at the cluster of the old recording, and with
// later ones.
func oldLife(t *testing.T, look func(i int, seconds float64, p *Picture)) {
	t.Helper()
	l := newLife(12)
	for range 15 {
		l.addPod()
	}
	for i := range oldLooks + 20 {
		if i > 0 {
			l.step()
		}
		if i == 45 { // selectors that come after nodes are gone
			names := slices.Sorted(maps.Keys(l.nodes))
			large := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: "large"} }
			l.pods["late-1"] = pod("late", "late-1", names[0], "1", large, created(900))
			affine := func(p *v1.Pod) {
				p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
						{Key: "metadata.name", Operator: v1.NodeSelectorOpNotIn, Values: []string{"n001", "n003", names[1]}},
					}}},
				}}}
			}
			l.pods["late-2"] = pod("late", "late-2", names[len(names)-1], "2", affine, tolerates, created(901))
		}
		p := l.picture()
		if i < 30 {
			p.Rules = []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{
				PodSet: app("web"), MaxPerNode: new(int32(3)), Excludes: []v1alpha1.Exclusion{{PodSet: app("db"), Max: 1}},
			})}
		}
		p.Declared.Deployments = []*appsv1.Deployment{deployment("web", int32(3+i/20), "1"), deployment("batch", 2, "2")}
		if i%10 != 0 {
			p.Declared = nil
		}
		for j, n := range p.Nodes { // the version that recorded it knew no price but 1
			p.Nodes[j] = n.DeepCopy()
			p.Nodes[j].Annotations = map[string]string{kube.CostAnnotation: "1"}
		}
		look(i, float64(i)*1.25, p)
	}
}

const oldLooks = 60

// copyOld copies the old recording, or a text in its place.
func copyOld(t *testing.T, text ...string) (path, content string) {
	t.Helper()
	if text == nil {
		recorded, err := os.ReadFile(oldRecording)
		require.NoError(t, err)
		text = []string{string(recorded)}
	}
	path = filepath.Join(t.TempDir(), "recording")
	content = strings.Join(text, "\n")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path, content
}

// sameLines compares the files of two traces by their lines: the order of what leaves
// in one moment does not matter.
func sameLines(t *testing.T, want, got map[string]string) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		require.ElementsMatch(t, strings.Split(want[name], "\n"), strings.Split(got[name], "\n"), name)
	}
}

// oldTrace is the trace of the old recording: the one that the version wrote which
// recorded it, but for pods that waited. They came when they began to wait.
func oldTrace(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/old/trace/*")
	require.NoError(t, err)
	want := map[string]string{}
	for _, name := range names {
		want[filepath.Base(name)] = read(t, name)
	}
	for _, waited := range [][2]string{
		{"\n18.75,create,shop/p02,", "\n47.5,create,shop/p02,"},
		{"\n53.75,create,shop/p10,", "\n58.75,create,shop/p10,"},
	} {
		require.Equal(t, 1, strings.Count(want["events.csv"], waited[0]))
		want["events.csv"] = strings.Replace(want["events.csv"], waited[0], waited[1], 1)
	}
	return want
}

// openOld opens a recording that is there and returns its trace too.
func openOld(t *testing.T, path string) (*Recorder, map[string]string) {
	t.Helper()
	r, resumed, err := OpenRecorder(path, "", after(1000))
	require.NoError(t, err)
	require.True(t, resumed)
	require.Equal(t, noon, r.Began())
	tr, _, err := r.Trace("x", "open")
	require.NoError(t, err)
	return r, files(t, tr)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestOldRecording(t *testing.T) {
	path, old := copyOld(t)
	r, got := openOld(t, path)
	sameLines(t, oldTrace(t), got)
	require.NoError(t, r.Close())
	require.Equal(t, old, read(t, path+".v1"))
	for _, name := range []string{path, path + ".v1"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	// It is a decision log, which a ledger takes too.
	translated := read(t, path)
	l, events := ledger.New(), ledger.NewReader(path, strings.NewReader(translated))
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, l.Apply(e), "line %d", events.Line())
	}
	// The second time there is nothing to translate.
	require.NoError(t, os.Remove(path+".v1"))
	r, got = openOld(t, path)
	sameLines(t, oldTrace(t), got)
	require.NoError(t, r.Close())
	require.NoFileExists(t, path+".v1")
	require.Equal(t, translated, read(t, path))
}

// TestOldRecordingGoesOn: an old recording that is resumed equals one of the present
// format from the beginning.
func TestOldRecordingGoesOn(t *testing.T) {
	path, _ := copyOld(t)
	whole := NewRecorder("", noon)
	var resumed *Recorder
	oldLife(t, func(i int, seconds float64, p *Picture) {
		record(t, whole, seconds, p)
		if i == oldLooks-1 {
			resumed, _ = openOld(t, path)
			require.NoError(t, resumed.SameCluster(p))
			before := resumed.Tally()
			require.Equal(t, whole.Tally(), before)
			record(t, resumed, seconds+.5, p)
			require.Equal(t, before.Arrived, resumed.Tally().Arrived, "nothing is new")
		} else if i >= oldLooks {
			record(t, resumed, seconds, p)
		}
	})
	require.NoError(t, resumed.Close())
	want, _, err := whole.Trace("x", "open")
	require.NoError(t, err)
	delete(want.Source, "fixed") // only of one look
	resumed, got := openOld(t, path)
	sameLines(t, files(t, want), got)
	require.NoError(t, resumed.Close())
}

// TestOldRecordingKilled: a kill at any moment of the translation loses nothing.
func TestOldRecordingKilled(t *testing.T) {
	text, err := os.ReadFile(oldRecording)
	require.NoError(t, err)
	kills := killtest.EachStep(t,
		func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, "recording"), text, 0o600)) },
		func(dir string) error {
			r, _, err := OpenRecorder(filepath.Join(dir, "recording"), "", noon)
			if err != nil {
				return err
			}
			return r.Close()
		},
		func(dir, next string) {
			path := filepath.Join(dir, "recording")
			if left := read(t, path); left != string(text) {
				require.Equal(t, string(text), read(t, path+".v1"), next)
			}
			r, got := openOld(t, path)
			sameLines(t, oldTrace(t), got)
			require.NoError(t, r.Close())
			require.Equal(t, string(text), read(t, path+".v1"), next)
		})
	require.Greater(t, kills, 8)
}

const oldBegin = `{"at":0,"begin":{"version":1,"time":"2026-05-04T12:00:00Z"}}`

func TestOldRecordingCutOff(t *testing.T) {
	path, old := copyOld(t)
	_, want := openOld(t, path)
	for _, tail := range []string{`{`, `{"at":90,"left":"u`} {
		path, _ := copyOld(t, old+tail)
		_, got := openOld(t, path)
		require.Equal(t, want, got)
		require.Equal(t, old+tail, read(t, path+".v1"))
	}
	for size := len(`{"a`); size < len(oldBegin); size++ {
		path, _ := copyOld(t, oldBegin[:size])
		r, resumed, err := OpenRecorder(path, "", noon)
		require.NoError(t, err, "%d bytes", size)
		require.False(t, resumed)
		record(t, r, 0, picture([]*v1.Node{node("a")}))
		require.NoError(t, r.Close())
	}
	for size := len(oldBegin) + 1; size < len(old); size += 1013 {
		path, _ := copyOld(t, old[:size])
		r, _ := openOld(t, path)
		record(t, r, 1001, picture([]*v1.Node{node("n001")}, pod("web", "web-1", "n001", "1")))
		require.Equal(t, 1, r.Tally().Standing)
		require.NoError(t, r.Close())
	}
}

func TestOldRecordingRefused(t *testing.T) {
	const web = `{"at":0,"app":"web","spec":{"group":"web","demand":{"cpu":1}}}`
	for _, bad := range []struct{ line, want string }{
		{`{"at":1,"left":"x"`, ":3: unexpected EOF"},
		{`garbage`, ":3: invalid character 'g' looking for beginning of value"},
		{`{"at":1,"went":"x"}`, `:3: unknown field "went"`},
		{`{"at":1,"left":"x"}`, ":3: x is unknown"},
		{`{"at":1,"gone":"x"}`, ":3: x is unknown"},
		{`{"at":1,"app":"x","spec":{"group":"x","selector":"sel-1"}}`, ":3: x is unknown, or its selector"},
		{`{"at":1,"pod":{"uid":"1","app":"web","node":"x"}}`, `:3: pod: node "x" or app "web" is unknown`},
		{`{"at":1,"pod":{"uid":"1","app":"x"}}`, `:3: pod: node "" or app "x" is unknown`},
		{oldBegin, ":3: not a recording of version 1"},
		{`{"at":1,"app":"web","spec":{"group":"web","demand":{"cpu":2}}}`, ": app: the demand of web changed"},
	} {
		path, text := copyOld(t, oldBegin, web, bad.line, `{"at":2,"expected":{"web":1}}`, "")
		_, _, err := OpenRecorder(path, "", noon)
		require.ErrorContains(t, err, path+bad.want)
		require.Equal(t, text, read(t, path))
		require.NoFileExists(t, path+".v1")
	}
	path, _ := copyOld(t, `{"at":0,"begin":{"version":2,"time":"2026-05-04T12:00:00Z"}}`, "")
	_, _, err := OpenRecorder(path, "", noon)
	require.EqualError(t, err, path+":1: not a recording of version 1")

	path, text := copyOld(t)
	other, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, durable.TryLock(other))
	_, _, err = OpenRecorder(path, "", noon)
	require.ErrorContains(t, err, path+": another writer has it open")
	require.Equal(t, text, read(t, path))
	require.NoError(t, other.Close())

	_, _, err = OpenRecorder(path, "app", noon)
	require.EqualError(t, err, path+`: was begun with --app-label "", not "app"`)
}

// A pod leaves with its node, even if the API server keeps it for a while, and comes
// again with it.
func TestOldPodsOfGoneNodes(t *testing.T) {
	path, _ := copyOld(t, oldBegin,
		`{"at":0,"node":{"name":"n","uid":"1","machine":{"capacity":{"cpu":9,"pods":9},"cost":1}}}`,
		`{"at":0,"app":"web","spec":{"group":"web","demand":{"cpu":1,"pods":1},"max_per_machine":3,"spread_min":2}}`,
		`{"at":0,"pod":{"uid":"w","name":"s/w","app":"web","created":5}}`,
		`{"at":0,"pod":{"uid":"a","name":"s/a","app":"web","node":"n","created":7}}`,
		`{"at":0,"pod":{"uid":"b","name":"s/b","app":"web","node":"n","created":6}}`,
		`{"at":2,"gone":"n"}`,
		`{"at":3,"pod":{"uid":"w","name":"s/w","app":"web","node":"n","created":5}}`, // bound too late
		`{"at":4,"left":"a"}`,
		`{"at":5,"node":{"name":"n","uid":"1","machine":{"capacity":{"cpu":9,"pods":9},"cost":1}}}`,
		`{"at":6,"left":"b"}`, "")
	r, got := openOld(t, path)
	require.Equal(t, "request,app,machine,count,devices\ns/b,web,n,1,\ns/a,web,n,1,\n", got["placed.csv"])
	require.Equal(t, `time,kind,request,app,count
0,create,s/w,web,1
2,delete,s/a,web,1
2,delete,s/b,web,1
3,delete,s/w,web,1
5,create,s/b#2,web,1
5,create,s/w#2,web,1
6,delete,s/b#2,web,1
`, got["events.csv"])
	require.Equal(t, history.Tally{Nodes: 1, Standing: 1, Apps: 1, Arrived: 2, Left: 4}, r.Tally())
	require.Contains(t, read(t, path), `"maxPerMachine":3,"spreadMin":2`)
}
