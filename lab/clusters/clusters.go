package clusters

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// An object is one of Kubernetes, as JSON.
type object = map[string]any

// A Style is a kind of cluster.
type Style struct {
	Name    string
	Nodes   int
	Cloud   string // eks, gke, aks or metal
	Minor   int    // of Kubernetes
	PerNode int    // pods of workloads
	Seed    uint64
	Metrics bool // PodMetrics are there
	Priced  bool // by a file, in EUR
}

// Styles are the five dumps: nobody tuned anything for them.
var Styles = []Style{
	{Name: "metal-20", Nodes: 20, Cloud: "metal", Minor: 28, PerNode: 14, Seed: 20},
	{Name: "eks-100", Nodes: 100, Cloud: "eks", Minor: 33, PerNode: 9, Seed: 100, Metrics: true},
	{Name: "aks-300", Nodes: 300, Cloud: "aks", Minor: 30, PerNode: 11, Seed: 300, Metrics: true},
	{Name: "gke-800", Nodes: 800, Cloud: "gke", Minor: 35, PerNode: 12, Seed: 800, Metrics: true, Priced: true},
	{Name: "eks-2000", Nodes: 2000, Cloud: "eks", Minor: 37, PerNode: 14, Seed: 2000},
}

// Write writes the cluster: lists one after another, as several commands of kubectl in one file.
func (s Style) Write(w io.Writer) error {
	c := &cluster{Style: s, rng: rand.New(rand.NewPCG(s.Seed, 47)), lists: map[string][]object{}, taken: map[string]bool{}}
	c.makePools()
	c.makeWorkloads()
	c.breakNodes()
	c.makeOdd()
	if s.Metrics {
		c.measure()
	}
	for _, kind := range kinds {
		items := c.lists[kind]
		if items == nil {
			continue
		}
		head, each := "", ",\n"
		for i, item := range items {
			if i == 0 {
				head = `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[` + "\n"
			} else {
				head = each
			}
			item["kind"], item["apiVersion"] = kind, versions[kind]
			text, err := json.Marshal(item)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s%s", head, text); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, "\n]}\n"); err != nil {
			return err
		}
	}
	return nil
}

// Prices writes the file of prices.
func (s Style) Prices(w io.Writer) error {
	if _, err := io.WriteString(w, "instance_type,capacity_type,region,price_per_hour,currency\n"); err != nil {
		return err
	}
	for _, p := range poolsOf[s.Cloud] {
		for _, t := range p.types {
			name, price := t.name, t.price
			kind := "on-demand"
			if p.spot {
				kind, price = "spot", math.Round(price*400)/1000
			}
			if _, err := fmt.Fprintf(w, "%s,%s,,%g,EUR\n", name, kind, price); err != nil {
				return err
			}
		}
	}
	return nil
}

var kinds = []string{"Node", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Pod", "PodMetrics"}

var versions = map[string]string{
	"Node": "v1", "Pod": "v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1",
	"Job": "batch/v1", "CronJob": "batch/v1", "PodDisruptionBudget": "policy/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "PodMetrics": "metrics.k8s.io/v1beta1",
}

// A cluster grows while it is made.
type cluster struct {
	Style
	rng   *rand.Rand
	lists map[string][]object
	nodes []*node
	serve []served
	count int
	taken map[string]bool
}

// A node with the room that is left on it.
type node struct {
	object
	name, zone string
	pool       *pool
	cpu, mem   int64 // m, MiB
	slots      int
	gpus       int64
	ports      map[int]bool
	apps       map[string]int
}

// A served pod has metrics.
type served struct {
	namespace, name string
	cpu, mem        int64
}

func (c *cluster) odds(p float64) bool { return c.rng.Float64() < p }

func oneOf[T any](c *cluster, list ...T) T { return list[c.rng.IntN(len(list))] }

// id draws the end of a name.
func (c *cluster) id(n int) string {
	const signs = "0123456789abcdef"
	b := make([]byte, n)
	for i := range b {
		b[i] = signs[c.rng.IntN(len(signs))]
	}
	return string(b)
}

// named is a name for a pod that no other has.
func (c *cluster) named(owner string) string {
	for {
		if name := owner + "-" + c.id(5); !c.taken[name] {
			c.taken[name] = true
			return name
		}
	}
}

func (c *cluster) meta(namespace, name string, labels map[string]any) object {
	c.count++
	m := object{"name": name, "uid": fmt.Sprintf("00000000-0000-4000-8000-%012d", c.count), "creationTimestamp": fmt.Sprintf("2026-%02d-%02dT08:00:00Z", 1+c.rng.IntN(10), 1+c.rng.IntN(28))}
	if namespace != "" {
		m["namespace"] = namespace
	}
	if labels != nil {
		m["labels"] = labels
	}
	return m
}

func (c *cluster) add(kind string, o object) object {
	c.lists[kind] = append(c.lists[kind], o)
	return o
}
