package dump

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

// paths of the lists that a client reads, by kind.
var paths = map[string]string{
	"Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "Deployment": "/apis/apps/v1/deployments", "StatefulSet": "/apis/apps/v1/statefulsets",
	"ReplicaSet": "/apis/apps/v1/replicasets", "Job": "/apis/batch/v1/jobs", "CronJob": "/apis/batch/v1/cronjobs",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers", "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
	"PodMetrics": "/apis/metrics.k8s.io/v1beta1/pods", "NodeMetrics": "/apis/metrics.k8s.io/v1beta1/nodes",
}

// live serves the objects of a dump, but for kinds that the account may not list.
func live(t *testing.T, o Options, forbidden ...string) *snapshot.Client {
	t.Helper()
	lists := map[string][]any{}
	for _, object := range Objects(o) {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if pod, ok := object.(*v1.Pod); ok && podspec.Ended(pod) {
			continue // the field selector
		}
		lists[kind] = append(lists[kind], object)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var object any = map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}}
		refuse := func(e *apierrors.StatusError) {
			e.ErrStatus.Kind, e.ErrStatus.APIVersion = "Status", "v1"
			w.WriteHeader(int(e.ErrStatus.Code))
			object = e.ErrStatus
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/apis/sigma-scheduler.io") {
			refuse(apierrors.NewNotFound(schema.GroupResource{}, ""))
		}
		for kind, path := range paths {
			if r.URL.Path != path {
				continue
			}
			if slices.Contains(forbidden, kind) {
				refuse(apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(kind)}, "", errors.New("no")))
				break
			}
			group := strings.TrimPrefix(strings.TrimPrefix(path[:strings.LastIndex(path, "/")], "/apis/"), "/api/")
			object = map[string]any{"kind": kind + "List", "apiVersion": group, "metadata": map[string]any{}, "items": lists[kind]}
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(server.Close)
	c, err := snapshot.NewClient(&rest.Config{Host: server.URL}, 5*time.Second)
	require.NoError(t, err)
	return c
}

// read reads a dump.
func read(t *testing.T, text []byte) (*snapshot.Picture, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return snapshot.ReadDumps([]string{path})
}

// recorded is the trace of a picture, with its files and the notes.
func recorded(t *testing.T, p *snapshot.Picture) (tr *trace.Trace, files map[string]string, notes []string) {
	t.Helper()
	r := snapshot.NewRecorder("", Now)
	require.NoError(t, r.Record(p, Now))
	tr, notes, err := r.Trace("snap", "open")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, tr.Write(dir))
	again, err := trace.Load(dir)
	require.NoError(t, err)
	require.Equal(t, tr.Instance, again.Instance, "a bound depends on the order of types")
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	files = map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files[filepath.Base(name)] = string(text)
	}
	require.Greater(t, len(files), 3)
	return tr, files, notes
}

// A dump of a cluster makes the same trace as the cluster, byte for byte, with the same notes.
func TestDumpEqualsLive(t *testing.T) {
	for _, o := range []Options{
		{Nodes: 20, Seed: 1, Cloud: "aws"},
		{Nodes: 30, Seed: 2, Cloud: "azure", Minor: 28},
		{Nodes: 12, Seed: 3, Cloud: "google", Minor: 37},
		{Nodes: 40, Seed: 4},
	} {
		t.Run(fmt.Sprint(o.Cloud, o.Minor), func(t *testing.T) {
			c := live(t, o)
			c.Lenient = true
			running, err := c.Read(t.Context())
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, Write(&text, o))
			dumped, err := read(t, text.Bytes())
			require.NoError(t, err)

			require.Equal(t, running.Use, dumped.Use)
			require.NotEmpty(t, dumped.Use)
			require.Len(t, dumped.Budgets, len(running.Budgets))
			require.NotEmpty(t, dumped.Budgets)
			require.Empty(t, running.Missing)
			require.Len(t, dumped.Missing, 3, "objects of volumes, which a dump without any does not prove: %v", dumped.Missing)
			ignored := dumped.Notes[len(dumped.Notes)-1]
			require.Regexp(t, `^objects of kinds that placement does not depend on are ignored: DaemonSet 5(, NodeMetrics \d+)?$`, ignored)
			require.Equal(t, append(running.Notes, ignored), dumped.Notes)
			running.Missing = dumped.Missing // the trace names them
			_, filesA, notesA := recorded(t, running)
			_, filesB, notesB := recorded(t, dumped)
			require.Equal(t, notesA, notesB)
			require.Equal(t, filesA, filesB)
		})
	}
}

// An account that may not list some kinds gets an answer that names them; without nodes or pods there is none.
func TestReadWithFewRights(t *testing.T) {
	o := Options{Nodes: 12, Seed: 5}
	some := slices.DeleteFunc(slices.Collect(maps.Keys(paths)), func(kind string) bool { return kind == "Node" || kind == "Pod" })
	c := live(t, o, some...)
	_, err := c.Read(t.Context())
	require.ErrorContains(t, err, "forbidden: the account needs the verb list on ")
	c.Lenient = true
	p, err := c.Read(t.Context())
	require.NoError(t, err)
	var kinds []string
	for _, m := range p.Missing {
		kinds = append(kinds, m.Kind)
	}
	require.ElementsMatch(t, []string{"Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "HorizontalPodAutoscaler", "PodDisruptionBudget", "PodMetrics"}, kinds)
	require.Nil(t, p.Use)
	tr, _, _ := recorded(t, p)
	require.NotEmpty(t, tr.Placed)

	c = live(t, o, "Pod")
	c.Lenient = true
	_, err = c.Read(t.Context())
	require.ErrorContains(t, err, "list pods: forbidden")
}

// A generated dump is the same each time, and has the messes that it promises.
func TestGeneratedDumps(t *testing.T) {
	o := Options{Nodes: 40, Seed: 7, Cloud: "aws"}
	var once, again bytes.Buffer
	require.NoError(t, Write(&once, o))
	require.NoError(t, Write(&again, o))
	require.Equal(t, once.String(), again.String())
	require.True(t, json.Valid(once.Bytes()))
	p, err := read(t, once.Bytes())
	require.NoError(t, err)
	require.Len(t, p.Nodes, 40)
	cordoned, dead, spot, gpu, waiting, volumes := 0, 0, 0, 0, 0, 0
	for _, n := range p.Nodes {
		if n.Spec.Unschedulable {
			cordoned++
		}
		if podspec.Unwell(n) != nil {
			dead++
		}
		if n.Labels["karpenter.sh/capacity-type"] == "spot" {
			spot++
		}
		if _, ok := n.Status.Allocatable["nvidia.com/gpu"]; ok {
			gpu++
		}
	}
	free := map[string]int64{}
	for _, n := range p.Nodes {
		free[n.Name] = n.Status.Allocatable.Cpu().MilliValue()
	}
	for _, pod := range p.Pods {
		if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 && !podspec.Ended(pod) {
			waiting++
		}
		if len(pod.Spec.Volumes) > 0 && pod.Spec.Volumes[0].PersistentVolumeClaim != nil {
			volumes++
		}
		free[pod.Spec.NodeName] -= podspec.Demand(pod)["cpu"]
	}
	for name, n := range free {
		require.True(t, name == "" || n >= 0, "%s: %d", name, n)
	}
	require.Equal(t, []int{1, 1, 1, 3}, []int{cordoned, dead, gpu, waiting})
	require.Greater(t, spot, 3)
	require.Greater(t, volumes, 3)
}

// A picture has prices where the built-in list knows one of its nodes, or a file is given.
func TestPricesOfPicture(t *testing.T) {
	read := func(o Options) *snapshot.Picture {
		var text bytes.Buffer
		require.NoError(t, Write(&text, o))
		p, err := read(t, text.Bytes())
		require.NoError(t, err)
		return p
	}
	for _, cloud := range []string{"aws", "azure", "google"} {
		p := read(Options{Nodes: 20, Seed: 1, Cloud: cloud})
		prices, err := p.Prices("")
		require.NoError(t, err)
		r := snapshot.NewRecorder("", Now)
		r.Prices = prices
		require.NoError(t, r.Record(p, Now))
		tr, _, err := r.Trace("snap", "open")
		require.NoError(t, err)
		require.Equal(t, "USD", tr.Source["currency"])
		require.Contains(t, r.Priced(), " by built-in list")
		require.Contains(t, r.Priced(), ", in USD an hour\n  ")
		require.Contains(t, r.Priced(), ", spot × 0.35")
	}
	p := read(Options{Nodes: 20, Seed: 1})
	prices, err := p.Prices("")
	require.NoError(t, err)
	require.Nil(t, prices, "no type is known")
	_, err = p.Prices("none.csv")
	require.Error(t, err)
}

// The files of the demo are the generator's:
//
//	sigma-lab dump --nodes 40 --seed 11 --cloud aws --out docs/examples/messy.json.gz --usage docs/examples/messy.csv.gz
func TestDumpOfDemo(t *testing.T) {
	for path, write := range map[string]func(io.Writer, Options) error{"messy.json.gz": Write, "messy.csv.gz": WriteUsage} {
		packed, err := os.ReadFile("../../docs/examples/" + path)
		require.NoError(t, err)
		require.Less(t, len(packed), 200_000)
		unpacked, err := gzip.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		text, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		var want bytes.Buffer
		require.NoError(t, write(&want, Options{Nodes: 40, Seed: 11, Cloud: "aws"}))
		require.True(t, bytes.Equal(want.Bytes(), text), "write it again")
	}
}
