package snapshot

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

func after(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// record records a picture at a time.
func record(t *testing.T, r *Recorder, seconds float64, p *Picture) {
	t.Helper()
	require.NoError(t, r.Record(p, after(seconds)))
}

// resume continues the recording of a file, if there is one.
func resume(t *testing.T, path string, now time.Time) (r *Recorder, resumed bool) {
	t.Helper()
	r, err := OpenRecorder(path, "", "open", ledger.Rotation{}, now)
	require.NoError(t, err)
	began, err := r.Resume()
	require.NoError(t, err)
	return r, !began.IsZero()
}

func TestRecordingByHand(t *testing.T) {
	nodes := []*v1.Node{node("n1"), node("n2")}
	w1, w2 := pod("web", "web-1", "n1", "1"), pod("web", "web-2", "", "1")
	r := NewRecorder("", noon)
	record(t, r, 0, picture(nodes, w1, w2))
	bound := w2.DeepCopy()
	bound.Spec.NodeName = "n2"
	record(t, r, 2.5, picture(nodes, w1, bound))
	w3 := pod("web", "web-3", "n1", "1") // came and was bound between two looks
	record(t, r, 7, picture(nodes, bound, w3))
	resized := w3.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = amounts("cpu", "2")
	record(t, r, 9, picture(nodes, bound, resized))
	again := pod("web", "web-1", "n1", "1") // of the same name, as of a StatefulSet
	again.UID = "uid-web-1-again"
	record(t, r, 11.25, picture(nodes[:1], again, resized)) // n2 goes, and what stood there
	record(t, r, 12, picture(nodes[:1], again, resized))
	record(t, r, 20, picture(nodes[:1]))

	tr, notes, err := r.Trace("day", "open")
	require.NoError(t, err)
	require.Empty(t, notes)
	texts := files(t, tr)
	require.Equal(t, `time,kind,request,app,count
2.5,create,shop/web-2,shop/Deployment/web@cpu=1,1
7,delete,shop/web-1,shop/Deployment/web@cpu=1,1
7,create,shop/web-3,shop/Deployment/web@cpu=1,1
9,delete,shop/web-3,shop/Deployment/web@cpu=1,1
9,create,shop/web-3#2,shop/Deployment/web@cpu=2,1
11.25,delete,shop/web-2,shop/Deployment/web@cpu=1,1
11.25,create,shop/web-1#2,shop/Deployment/web@cpu=1,1
20,delete,shop/web-1#2,shop/Deployment/web@cpu=1,1
20,delete,shop/web-3#2,shop/Deployment/web@cpu=2,1
`, texts["events.csv"])
	require.Equal(t, "request,app,machine,count,devices\nshop/web-1,shop/Deployment/web@cpu=1,n1,1,\n", texts["placed.csv"])
	require.Contains(t, texts["trace.yaml"], `  placements:
    "shop/web-1#2": n1
    shop/web-2: n2
    shop/web-3: n1
    "shop/web-3#2": n1
`)
	require.Contains(t, texts["trace.yaml"], "  seconds: 20\n")
	require.Contains(t, texts["machines.csv"], "n2,", "it was there")
	require.Equal(t, history.Counts{Nodes: 1, Apps: 2, Arrived: 3, Departed: 5}, r.Counts())
}

// A node that was cordoned before it was removed is a machine of the trace.
func TestGoneNodesWereMachines(t *testing.T) {
	a, b := node("a"), node("b")
	r := NewRecorder("", noon)
	record(t, r, 0, picture([]*v1.Node{a, b}))
	closed := b.DeepCopy()
	cordoned(closed)
	record(t, r, 1, picture([]*v1.Node{a, closed}))
	tr, _, err := r.Trace("x", "open")
	require.NoError(t, err)
	require.Len(t, tr.Instance.Machines, 1)
	record(t, r, 2, picture([]*v1.Node{a}))
	tr, _, err = r.Trace("x", "open")
	require.NoError(t, err)
	require.Len(t, tr.Instance.Machines, 2)
	require.NotContains(t, tr.Instance.Types, history.Cordoned)
}

// The trace has the number that was declared when the app became known: a later one
// would show a policy what is to come.
func TestExpectedIsOfTheBeginning(t *testing.T) {
	nodes := []*v1.Node{node("n1")}
	r := NewRecorder("", noon)
	p := picture(nodes, pod("web", "web-1", "n1", "1"))
	p.Declared.Deployments = []*appsv1.Deployment{deployment("web", 3, "1")}
	record(t, r, 0, p)
	p = picture(nodes, p.Pods...)
	p.Declared.Deployments = []*appsv1.Deployment{deployment("web", 30, "1"), deployment("late", 7, "2")}
	record(t, r, 5, p)
	tr, _, err := r.Trace("x", "open")
	require.NoError(t, err)
	expected := map[string]float64{}
	for _, a := range tr.Instance.Apps {
		expected[a.Name] = a.Expected
	}
	require.Equal(t, map[string]float64{"shop/Deployment/web@cpu=1": 3, "shop/Deployment/late@cpu=2": 7}, expected)
}

// A policy gets the same numbers of expected pods in a replay of a snapshot as in the scheduler of the cluster.
func TestExpectedAsInTheScheduler(t *testing.T) {
	nodes := []*v1.Node{node("n1"), node("n2")}
	p := picture(nodes, pod("web", "web-1", "n1", "1"), pod("db", "db-1", "n1", "1"), pod("bare", "bare-1", "n2", "500m"), pod("web", "web-2", "", "1"))
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "db"}
	scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = new(int32(4)), 9
	p.Declared.Deployments = []*appsv1.Deployment{deployment("web", 6, "1"), deployment("db", 2, "1"), deployment("late", 3, "2"), deployment("huge", 5, "99")}
	p.Declared.Autoscalers = []*autoscalingv2.HorizontalPodAutoscaler{scaler}

	live := ledger.New()
	take := func(e *ledger.Event) { require.NoError(t, live.Apply(e)) }
	take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open", Units: podspec.Units}})
	cluster := kube.NewTranslator("", live, take)
	for _, n := range p.Nodes {
		cluster.SetNode(n, slices.DeleteFunc(slices.Clone(p.Pods), func(pod *v1.Pod) bool { return pod.Spec.NodeName != n.Name }))
	}
	cluster.Forecast(p.Declared, 0)
	known := live.Columns().Known.Expected

	r := NewRecorder("", noon)
	record(t, r, 0, p)
	tr, _, err := r.Trace("x", "open")
	require.NoError(t, err)
	got := map[string]float64{}
	for _, a := range tr.Instance.Apps {
		got[a.Name] = a.Expected
		want := known[live.AppIndex(a.Name)]
		require.Equal(t, want, a.Expected, a.Name)
	}
	require.Equal(t, map[string]float64{
		"shop/Deployment/web@cpu=1": 6, "shop/Deployment/db@cpu=1": 4, "shop/Deployment/bare@cpu=500m": 1, "shop/Deployment/late@cpu=2": 3,
	}, got)
}

// The trace keeps the rules between apps that are gone.
func TestRulesOfThePast(t *testing.T) {
	nodes := []*v1.Node{node("n1"), node("n2")}
	rules := []*kube.Rule{rule(t, v1alpha1.PlacementRuleSpec{PodSet: app("web"), Excludes: []v1alpha1.Exclusion{{PodSet: app("db")}}})}
	path := filepath.Join(t.TempDir(), "recording")
	open := func() *Recorder {
		r, _ := resume(t, path, noon)
		return r
	}
	count := func(r *Recorder) int {
		tr, _, err := r.Trace("x", "open")
		require.NoError(t, err)
		return len(tr.Instance.Rules)
	}
	r := open()
	p := picture(nodes, pod("web", "web-1", "n1", "1"), pod("db", "db-1", "n2", "1"))
	p.Rules = rules
	record(t, r, 0, p)
	require.Equal(t, 1, count(r))
	require.NoError(t, r.Close())

	r = open() // meanwhile db went: this process has never seen it
	p = picture(nodes, pod("web", "web-1", "n1", "1"))
	p.Rules = rules
	record(t, r, 5, p)
	require.Equal(t, 1, count(r))

	p = picture(nodes, pod("web", "web-1", "n1", "1"), pod("db", "db-2", "n2", "1"))
	record(t, r, 6, p) // both are there, and no rule any more
	require.Zero(t, count(r))
	require.NoError(t, r.Close())
	r = open()
	require.Zero(t, count(r))
	require.NoError(t, r.Close())
}

// TestRecordingGoesOn: a recording that is killed and resumed many times equals that
// of one process, except for what it could not see.
func TestRecordingGoesOn(t *testing.T) {
	for seed := range uint64(8) {
		path := filepath.Join(t.TempDir(), "recording")
		l := newLife(seed)
		whole := NewRecorder("", noon)
		cut, resumed := resume(t, path, noon)
		require.False(t, resumed)
		for i := range 80 {
			if i > 0 {
				l.step()
			}
			p := l.picture()
			if i > 0 {
				p.Declared = nil // what nothing declares is expected as it was seen, which a new process has not
			}
			record(t, whole, float64(i), p)
			record(t, cut, float64(i), p)
			if l.IntN(5) == 0 {
				require.NoError(t, cut.Close())
				if l.IntN(2) == 0 { // a line was cut off
					f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
					require.NoError(t, err)
					_, err = f.WriteString(`{"seq":7,"kind":"place","uid":"uid-7","pod":"` + strings.Repeat("x", 1000))
					require.NoError(t, err)
					require.NoError(t, f.Close())
				}
				cut, resumed = resume(t, path, after(float64(i)))
				require.True(t, resumed)
				record(t, cut, float64(i)+.5, p)
				require.Equal(t, whole.Counts().Placed, cut.Counts().Placed, "nothing is new")
			}
		}
		want, notes, err := whole.Trace("x", "open")
		require.NoError(t, err)
		got, _, err := cut.Trace("x", "open")
		require.NoError(t, err)
		delete(want.Source, "seconds") // the start of a process is later than what it saw last
		delete(got.Source, "seconds")
		require.Equal(t, files(t, want), files(t, got), "seed %d", seed)
		require.NoError(t, cut.Close())

		// At its end the trace has the pods that stand.
		alive := map[string]bool{}
		for i, q := range want.Requests {
			alive[q.Name] = i < want.Initial
		}
		for _, e := range want.Events {
			alive[want.Requests[e.Request].Name] = e.Kind == trace.Create
		}
		maps.DeleteFunc(alive, func(_ string, here bool) bool { return !here })
		n := 0
		for _, p := range l.pods {
			if podspec.Moves(p) {
				n++
			}
		}
		tally := whole.Counts()
		require.Equal(t, n, tally.Placed+tally.Waiting)
		hopeless := 0
		for _, note := range notes {
			if _, left, ok := strings.Cut(note, "waiting pods left out: "); ok {
				gone, err := strconv.Atoi(left)
				require.NoError(t, err)
				hopeless += gone
			}
		}
		require.Len(t, alive, n-hopeless)
	}
}

// TestRecordingCutAnywhere: a recording can be resumed wherever a kill cut it off.
func TestRecordingCutAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	r, _ := resume(t, path, noon)
	l := newLife(3)
	for i := range 12 {
		l.step()
		record(t, r, float64(i), l.picture())
	}
	require.NoError(t, r.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for size := 0; size <= len(text); size += 97 {
		require.NoError(t, os.WriteFile(path, text[:size], 0o600))
		r, resumed := resume(t, path, after(20))
		require.Equal(t, strings.Contains(string(text[:size]), "\n"), resumed)
		p := l.picture()
		if resumed {
			require.NoError(t, r.SameCluster(p))
		}
		record(t, r, 21, p)
		standing, waiting := 0, 0
		for _, p := range l.pods {
			if podspec.Moves(p) && p.Spec.NodeName != "" {
				standing++
			} else if podspec.Moves(p) {
				waiting++
			}
		}
		tally := r.Counts()
		require.Equal(t, []int{len(l.nodes), standing, waiting}, []int{tally.Nodes, tally.Placed, tally.Waiting})
		tr, _, err := r.Trace("x", "open")
		require.NoError(t, err)
		files(t, tr)
		require.NoError(t, r.Close())
	}
}

func TestRecorderRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	open := func(label, fleet string) *Recorder {
		r, err := OpenRecorder(path, label, fleet, ledger.Rotation{}, noon)
		require.NoError(t, err)
		return r
	}
	r := open("app", "open")
	record(t, r, 0, picture([]*v1.Node{node("a")}))
	_, err := OpenRecorder(path, "app", "open", ledger.Rotation{}, noon)
	require.ErrorContains(t, err, "another writer has it open")
	require.NoError(t, r.Close())

	refused := func(r *Recorder, want string) {
		t.Helper()
		_, err := r.Resume()
		require.EqualError(t, err, path+": was begun with "+want)
		require.NoError(t, r.Close())
	}
	refused(open("", "open"), `--app-label "app", not ""`)
	refused(open("app", "fixed"), `--fleet open, not fixed`)
	r = open("app", "open")
	r.Prices = &kube.Prices{Currency: "EUR"}
	refused(r, `--prices in "", not in "EUR"`)

	r = open("app", "open")
	began, err := r.Resume()
	require.NoError(t, err)
	require.Equal(t, noon, began)
	other := node("a") // a node of that name, but not that one
	other.UID = "other"
	require.EqualError(t, r.SameCluster(picture([]*v1.Node{other})), "the recording is of another cluster: none of its nodes is in this one")
	require.NoError(t, r.SameCluster(picture([]*v1.Node{node("a"), other})))
	require.NoError(t, r.Close())

	for _, bad := range []struct{ text, want string }{
		{begun + `{"seq":2,"kind":"remove","uix":"x"}` + "\n" + begun + begun[:3] + "\n{}\n", `:4: invalid character`},
		{begun + `{"seq":3,"kind":"rule"}` + "\n", `:2: seq 3 follows 1: lines are missing`},
		{begun + `{"seq":2,"kind":"forget","node":"x"}` + "\n", `:2: forget: node "x" is unknown`},
		{begun + `{"seq":2,"kind":"place","app":"x"}` + "\n", `:2: place: app "x" is unknown`},
		{`{"seq":1,"kind":"start"}` + "\n", `:1: start: start is missing`},
		{`{"seq":1,"kind":"rule"}` + "\n", `:1: nothing started yet`},
	} {
		require.NoError(t, os.WriteFile(path, []byte(bad.text), 0o600))
		r := open("", "open")
		_, err := r.Resume()
		require.ErrorContains(t, err, path+bad.want)
		require.NoError(t, r.Close())
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, bad.text, string(left), "what cannot be read is left alone")
	}
}

// A recording of the format before decision logs is refused, and left alone.
func TestRecorderRefusesOldFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	text := `{"at":0,"begin":{"version":1,"time":"2026-05-04T12:00:00Z"}}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	_, err := OpenRecorder(path, "", "open", ledger.Rotation{}, noon)
	require.ErrorContains(t, err, path+":1: a recording in the format of an earlier sigma")
	left, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(left))
}

const begun = `{"seq":1,"time":1777896000,"kind":"start","start":{"version":2,"fleet":"open"}}` + "\n"

// A node that is gone takes no pods that it would not have admitted, even if they
// came after it was removed.
func TestSelectorsAfterNodes(t *testing.T) {
	a, b := node("a"), node("b", typed("big"))
	pinned := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: "big"} }
	r := NewRecorder("", noon)
	record(t, r, 0, picture([]*v1.Node{a, b}, pod("web", "web-1", "a", "1")))
	record(t, r, 1, picture([]*v1.Node{b}))
	record(t, r, 2, picture([]*v1.Node{b}, pod("train", "train-1", "b", "1", pinned)))
	tr, _, err := r.Trace("x", "open")
	require.NoError(t, err)
	inst := tr.Instance
	require.Len(t, inst.Machines, 2)
	for _, app := range inst.Apps {
		if inst.Groups[app.Group].Name == "shop/Deployment/train" {
			require.Equal(t, []int32{inst.Machines[1].Type}, app.Types)
		}
	}
	require.NotEqual(t, inst.Machines[0].Type, inst.Machines[1].Type)
}

// Times of a recording increase even when the clock is set back.
func TestClockSetBack(t *testing.T) {
	nodes := []*v1.Node{node("n1")}
	r := NewRecorder("", noon)
	record(t, r, 0, picture(nodes))
	record(t, r, 10, picture(nodes, pod("web", "web-1", "n1", "1")))
	record(t, r, 5, picture(nodes))
	tr, _, err := r.Trace("x", "fixed")
	require.NoError(t, err)
	require.Equal(t, []trace.Event{{Time: 10, Count: 1}, {Time: 10.001, Kind: trace.Delete, Count: 1}}, tr.Events)
}
