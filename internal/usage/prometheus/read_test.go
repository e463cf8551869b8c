package prometheus

import (
	"context"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// noon of day 20,000; whole days before it end at its midnight.
var noon = time.Unix(20000*86400+43200, 0)

// A fake is a server of made-up pods that ends with the test.
type fake struct {
	*prometheustest.Fake
	*httptest.Server
}

func startFake(t *testing.T, series ...prometheustest.Series) fake {
	t.Helper()
	f := &prometheustest.Fake{Series: series}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return fake{f, server}
}

func read(t *testing.T, folder string, now time.Time, days int, urls ...string) *Record {
	t.Helper()
	rec, err := (&Reader{URLs: urls, Folder: folder}).Read(t.Context(), now, days)
	require.NoError(t, err)
	return rec
}

// byPrefix names a workload by the part of a pod's name before its last dash.
func byPrefix(_ *Day, pod Pod) string {
	name, _, ok := strings.Cut(pod.Name, "-")
	if !ok {
		return ""
	}
	return pod.Namespace + "/" + name
}

func histories(t *testing.T, rec *Record) *Histories {
	t.Helper()
	h, err := rec.Histories(rec.Until, true, byPrefix)
	require.NoError(t, err)
	return h
}

func TestReadsEachDayOnce(t *testing.T) {
	f := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(.5), prometheustest.Always(1e9)), prometheustest.Of("shop", "web-1", "log", prometheustest.Always(.1), prometheustest.Always(1e8)))
	dir := t.TempDir()
	rec := read(t, dir, noon, 16, f.URL)
	assert.Len(t, rec.Days, 16)
	assert.Equal(t, 16, rec.Read)
	h := histories(t, rec)
	cpu, memory := h.Pods["shop/web"].Days(h.At)
	assert.Equal(t, []int{16, 16}, []int{cpu, memory})
	assert.InEpsilon(t, .6, h.Pods["shop/web"].Busiest(.99, h.At), .011, "a pod is the sum of its containers")
	assert.InEpsilon(t, .1, h.Containers[ContainerOf{"shop/web", "log"}].Busiest(.99, h.At), .011)
	peak, _ := h.Pods["shop/web"].MemoryPeak(h.At)
	assert.InEpsilon(t, 1.1e9, peak, .001)
	assert.InDelta(t, 1, h.Pods["shop/web"].Coverage(h.At), 1e-9)
	assert.Len(t, h.Used, 1)
	assert.InEpsilon(t, .6*16*float64(Steps), h.Used["shop/web"], .001)

	asked := f.Asked.Load()
	assert.Zero(t, read(t, dir, noon.Add(6*time.Hour), 16, f.URL).Read)
	assert.Equal(t, asked, f.Asked.Load(), "nothing is asked again")
	assert.Equal(t, 1, read(t, dir, noon.Add(24*time.Hour), 16, f.URL).Read)
	assert.Zero(t, read(t, dir, time.Unix(20002*86400+60, 0), 16, f.URL).Read, "a day that ended a minute ago may lack samples")
	later := read(t, dir, noon.Add(70*24*time.Hour), 16, f.URL)
	assert.Len(t, later.Days, 16)
	files, err := os.ReadDir(later.folder)
	require.NoError(t, err)
	assert.Len(t, files, 16, "files of days beyond the kept ones are deleted")
}

// The server's limit of samples is met, and the answer is the same in smaller parts.
func TestARefusedQueryIsHalved(t *testing.T) {
	wave := func(i int64) float64 { return 1 + math.Sin(float64(i)/40) }
	series := []prometheustest.Series{
		prometheustest.Of("a", "x-1", "c", wave, wave), prometheustest.Of("a", "x-2", "c", wave, prometheustest.Always(3)), prometheustest.Of("b", "y-1", "c", prometheustest.Always(2), wave),
	}
	free, limited := startFake(t, series...), startFake(t, series...)
	limited.Limit = 100
	want, got := read(t, t.TempDir(), noon, 3, free.URL), read(t, t.TempDir(), noon, 3, limited.URL)
	assert.Positive(t, limited.Refused.Load())
	assert.Zero(t, free.Refused.Load())
	for name, h := range histories(t, want).Pods {
		assert.Equal(t, h, histories(t, got).Pods[name], name)
	}
	limited.Limit = 2
	_, err := (&Reader{URLs: []string{limited.URL}, Folder: t.TempDir()}).Read(t.Context(), noon, 3)
	require.ErrorContains(t, err, "too many samples", "not even one step is answered")
	require.ErrorContains(t, err, limited.URL)
}

// Two that scrape the same pods, each with gaps, are one; two with different pods are their
// union.
func TestTwoPrometheis(t *testing.T) {
	gaps := func(from, every int64) func(int64) float64 {
		return func(i int64) float64 {
			if i%every == from {
				return -1
			}
			return 1
		}
	}
	a := startFake(t, prometheustest.Of("shop", "web-1", "app", gaps(0, 3), gaps(0, 2)))
	b := startFake(t, prometheustest.Of("shop", "web-1", "app", gaps(1, 3), gaps(1, 2)), prometheustest.Of("shop", "db-0", "app", prometheustest.Always(2), prometheustest.Always(5)))
	h := histories(t, read(t, t.TempDir(), noon, 4, a.URL, b.URL))
	web := h.Pods["shop/web"]
	assert.InDelta(t, 1, web.Coverage(h.At), 1e-9)
	assert.InEpsilon(t, 1, web.Busiest(1, h.At), .011, "counted once")
	peak, _ := web.MemoryPeak(h.At)
	assert.InEpsilon(t, 1, peak, .001)
	assert.InEpsilon(t, 2, h.Pods["shop/db"].Busiest(1, h.At), .011)
	alone := histories(t, read(t, t.TempDir(), noon, 4, a.URL))
	assert.InDelta(t, 2./3, alone.Pods["shop/web"].Coverage(alone.At), .01)
}

// A gap is no use, and a day that is mostly gap is none of history.
func TestGapsAndDaysBeforeTheBeginning(t *testing.T) {
	begin := noon.Unix()/300 - 5*288 // noon, five days before
	f := startFake(t, prometheustest.Of("shop", "web-1", "app", func(i int64) float64 {
		if i < begin || i%288 >= 24 && i%288 < 48 {
			return -1
		}
		return 1
	}, prometheustest.Always(1e9)))
	rec := read(t, t.TempDir(), noon, 28, f.URL)
	h := histories(t, rec)
	cpu, memory := h.Pods["shop/web"].Days(h.At)
	assert.Equal(t, []int{5, 28}, []int{cpu, memory})
	assert.InDelta(t, (.5+4*264./288)/5, h.Pods["shop/web"].Coverage(h.At), .001)

	f.Series[0].Memory = func(i int64) float64 { return f.Series[0].CPU(i) }
	rec = read(t, t.TempDir(), noon, 28, f.URL)
	assert.Len(t, rec.Days, 5, "days before the history's beginning have no file")
}

func TestNoHistoryAtAll(t *testing.T) {
	f := startFake(t)
	_, err := (&Reader{URLs: []string{f.URL}, Folder: t.TempDir()}).Read(t.Context(), noon, 28)
	require.ErrorIs(t, err, ErrEmpty)
	require.ErrorContains(t, err, f.URL)
	for _, url := range []string{"localhost:9090", "ftp://a", "http://", "http://a b"} {
		_, err := (&Reader{URLs: []string{url}, Folder: t.TempDir()}).Read(t.Context(), noon, 28)
		require.ErrorContains(t, err, "the URL of a Prometheus")
	}
	f.Close()
	_, err = (&Reader{URLs: []string{strings.Replace(f.URL, "http://", "http://user:secret@", 1)}, Folder: t.TempDir()}).Read(t.Context(), noon, 28)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestOwners(t *testing.T) {
	f := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(1), prometheustest.Always(1)))
	f.Owners = []map[string]string{
		{"metric": "kube_pod_owner", "namespace": "shop", "pod": "web-1", "owner_kind": "ReplicaSet", "owner_name": "web-5d"},
		{"metric": "kube_pod_owner", "namespace": "monitoring", "pod": "ksm", "exported_namespace": "shop", "exported_pod": "tick-1", "owner_kind": "Job", "owner_name": "tick-29"},
		{"metric": "kube_pod_owner", "namespace": "shop", "pod": "alone-1", "owner_kind": "ReplicaSet", "owner_name": "alone"},
		{"metric": "kube_pod_owner", "namespace": "shop", "pod": "bare", "owner_kind": "<none>", "owner_name": "<none>"},
		{"metric": "kube_replicaset_owner", "namespace": "shop", "replicaset": "web-5d", "owner_kind": "Deployment", "owner_name": "web"},
		{"metric": "kube_job_owner", "namespace": "shop", "job_name": "tick-29", "owner_kind": "CronJob", "owner_name": "tick"},
	}
	rec := read(t, t.TempDir(), noon, 1, f.URL)
	d, err := rec.Day(rec.Days[0])
	require.NoError(t, err)
	assert.Equal(t, map[Pod]Owner{
		{"shop", "web-1"}: {"Deployment", "web"}, {"shop", "tick-1"}: {"CronJob", "tick"}, {"shop", "alone-1"}: {"ReplicaSet", "alone"},
	}, d.Owners)
}

func TestADamagedFileIsNamed(t *testing.T) {
	f := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(1), prometheustest.Always(1)))
	dir := t.TempDir()
	rec := read(t, dir, noon, 1, f.URL)
	path := filepath.Join(rec.folder, "2024-10-03.gz")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, damaged := range [][]byte{nil, data[:len(data)-9], data[:40], []byte("text")} {
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, err = rec.Day(rec.Days[0])
		require.ErrorContains(t, err, path)
	}
}

// The days of one server are not those of another: it may be of another cluster.
func TestAnotherServerIsReadAnew(t *testing.T) {
	one := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(1), prometheustest.Always(1)))
	other := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(3), prometheustest.Always(1)))
	dir := t.TempDir()
	read(t, dir, noon, 2, one.URL)
	rec := read(t, dir, noon, 2, other.URL)
	assert.Equal(t, 2, rec.Read)
	assert.InEpsilon(t, 3, histories(t, rec).Pods["shop/web"].Busiest(.99, float64(rec.Until)*86400), .011)
	assert.Zero(t, read(t, dir, noon, 2, strings.Replace(one.URL, "http://", "http://user:word@", 1)+"/").Read)
}

// A warning says that a part of the data is missing: no day is kept of it. Entries without a series are none.
func TestAPartialAnswerIsNoDay(t *testing.T) {
	f := startFake(t, prometheustest.Of("shop", "web-1", "app", prometheustest.Always(1), prometheustest.Always(1)))
	f.Warning = "store gateway: no response"
	dir := t.TempDir()
	_, err := (&Reader{URLs: []string{f.URL}, Folder: dir}).Read(t.Context(), noon, 1)
	require.ErrorContains(t, err, "it answers with a warning: store gateway: no response")
	f.Warning, f.Null = "PromQL info: a name", true
	assert.Equal(t, 1, read(t, dir, noon, 1, f.URL).Read)
}

func FuzzDecode(f *testing.F) {
	dir := f.TempDir()
	d := &Day{Number: 3, Owners: map[Pod]Owner{{"a", "b"}: {"Job", "x"}}, Containers: []Container{{Pod: Pod{"a", "b"}, Name: "c", CPU: make([]float32, Steps)}}}
	require.NoError(f, d.write(filepath.Join(dir, "day")))
	data, err := os.ReadFile(filepath.Join(dir, "day"))
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:30])
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = decode(strings.NewReader(string(data)), 3, nil)
	})
}

// A process that is killed after some days leaves whole files, and the next one reads the rest
// to the same histories.
func TestAKilledReadResumes(t *testing.T) {
	if url := os.Getenv("READ_FROM"); url != "" {
		_, err := (&Reader{URLs: []string{url}, Folder: os.Getenv("READ_TO")}).Read(context.Background(), noon, 20)
		require.NoError(t, err)
		return
	}
	wave := func(i int64) float64 { return 1 + math.Sin(float64(i)/40) }
	series := []prometheustest.Series{prometheustest.Of("a", "x-1", "c", wave, wave), prometheustest.Of("a", "x-2", "c", wave, prometheustest.Always(3))}
	want := histories(t, read(t, t.TempDir(), noon, 20, startFake(t, series...).URL))
	for _, after := range []int64{3, 8, 21} { // range queries, two a day
		answers := make(chan struct{}, 1000)
		f := fake{Fake: &prometheustest.Fake{Series: series, Answered: func() { answers <- struct{}{} }}}
		f.Server = httptest.NewServer(f.Fake)
		t.Cleanup(f.Close)
		dir, killed := t.TempDir(), make(chan struct{})
		program, err := os.Executable()
		require.NoError(t, err)
		child := exec.Command(program, "-test.run=^TestAKilledReadResumes$")
		child.Env = append(os.Environ(), "READ_FROM="+f.URL, "READ_TO="+dir)
		require.NoError(t, child.Start())
		go func() {
			for range after {
				<-answers
			}
			_ = child.Process.Kill()
			close(killed)
		}()
		require.Error(t, child.Wait())
		<-killed
		rec := read(t, dir, noon, 20, f.URL)
		assert.Less(t, rec.Read, 20)
		got := histories(t, rec)
		assert.Equal(t, want.Pods["a/x"], got.Pods["a/x"])
	}
}
