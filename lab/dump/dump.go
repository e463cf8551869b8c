package dump

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Options describe a cluster. The same options give the same bytes.
type Options struct {
	Nodes int // at least 10
	Seed  uint64
	Cloud string // aws, azure, google; "" = machines without a price list
	Minor int    // of Kubernetes: 28 to 37; 0 = 36. Older ones lack later features
	// Without leaves out kinds, such as PodMetrics.
	Without []string
	// PodsPerNode is the number of pods of workloads a node has on average; 0 = 6. Those of DaemonSets are extra.
	PodsPerNode int
}

// Now is the time of each dump.
var Now = time.Date(2026, 11, 24, 14, 30, 0, 0, time.UTC)

// Write writes the cluster as one list.
func Write(w io.Writer, o Options) error {
	objects := Objects(o)
	if _, err := io.WriteString(w, "{\n    \"apiVersion\": \"v1\",\n    \"items\": ["); err != nil {
		return err
	}
	for i, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		separator := ",\n"
		if i == 0 {
			separator = "\n"
		}
		if _, err := fmt.Fprintf(w, "%s        %s", separator, text); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}\n")
	return err
}

// Objects returns the objects of the cluster, by kind, with their kinds.
func Objects(o Options) []runtime.Object { return newCluster(o).objects() }

func newCluster(o Options) *cluster {
	if o.Minor == 0 {
		o.Minor = 36
	}
	if o.PodsPerNode == 0 {
		o.PodsPerNode = 6
	}
	c := &cluster{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0xd0b5))}
	c.addNodes()
	c.addDaemonSets()
	c.addWorkloads()
	c.thinOut()
	c.breakNodes()
	c.addWaiting()
	c.addBudgets()
	c.addUse()
	return c
}

// A cluster grows while it is generated.
type cluster struct {
	Options
	rng       *rand.Rand
	nodes     []*machine
	pods      []*v1.Pod
	workloads []*workload
	others    []runtime.Object // of each kind
	born      int              // of pods, in minutes
	named     int
}

// A machine is a node with the pods on it.
type machine struct {
	*v1.Node
	pool     *pool
	cpu, mem int64 // free, in millicores and MiB
	slots    int
	on       []*v1.Pod
	gpus     int64
}

func (c *cluster) chance(p float64) bool { return c.rng.Float64() < p }

// between draws from a range, its ends included.
func (c *cluster) between(a, b int) int { return a + c.rng.IntN(b-a+1) }

func pick[T any](c *cluster, list []T) T { return list[c.rng.IntN(len(list))] }

// uid draws a UID.
func (c *cluster) uid() types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", c.rng.Uint32(), c.rng.IntN(1<<16), c.rng.IntN(1<<12), 0x8000|c.rng.IntN(1<<14), c.rng.Uint64()>>16))
}

const consonants = "bcdfghjklmnpqrstvwxz2456789"

// suffix draws the end of a name, as controllers do.
func (c *cluster) suffix(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = consonants[c.rng.IntN(len(consonants))]
	}
	return string(text)
}

// meta returns the metadata of a new object that is some minutes old.
func (c *cluster) meta(namespace, name string, minutes int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: c.uid(), ResourceVersion: fmt.Sprint(c.rng.IntN(90_000_000) + 1_000_000),
		CreationTimestamp: metav1.NewTime(Now.Add(-time.Duration(minutes) * time.Minute)), Generation: 1,
	}
}
