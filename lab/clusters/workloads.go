package clusters

import "fmt"

// An app is a workload with its pods.
type app struct {
	kind, namespace, name string
	cpu, mem              int64 // m, MiB of a pod
	gpus                  int64
	pool                  *pool
	arch                  string
	replicas              int
	spec                  object // beside its containers
	alone                 bool   // on a host
	zoneSkew              int
	perZone               bool // at most one in a zone
	port                  int
	avoid                 string // an app whose hosts it avoids
	init                  int64  // m of an init container
	claims                bool
	on                    []*node
}

var teams = []string{"checkout", "search", "billing", "data", "ml", "web", "identity", "mobile", "ops", "video"}

func (c *cluster) makeWorkloads() {
	for i, name := range []string{"node-agent", "csi-node", "log-tail"} {
		c.makeDaemons(name, int64(50+50*i), int64(60+40*i))
	}
	for pods, n := 0, 0; pods < c.Nodes*c.PerNode; n++ {
		a := c.drawApp(n)
		for range a.replicas {
			if at := c.place(a); at != nil {
				a.on = append(a.on, at)
			}
		}
		pods += a.replicas
		c.scaleDown(a)
		if len(a.on) > 0 {
			c.declare(a)
		}
	}
}

// drawApp draws a workload with its constraints.
func (c *cluster) drawApp(n int) *app {
	pools := poolsOf[c.Cloud]
	at := 0
	for draw := c.rng.Float64(); at < len(pools)-1 && draw > pools[at].part; at++ {
		draw -= pools[at].part
	}
	a := &app{
		kind: "Deployment", namespace: teams[n%len(teams)], name: fmt.Sprintf("%s-%d", oneOf(c, "api", "worker", "cache", "front", "sync", "ingest"), n),
		cpu: oneOf[int64](c, 50, 100, 100, 200, 250, 500, 500, 1000, 2000), mem: oneOf[int64](c, 128, 256, 512, 1024, 2048, 3000, 4096), pool: &pools[at], arch: "amd64",
		replicas: oneOf(c, 1, 2, 2, 3, 3, 4, 6, 8, 12, 20), spec: object{},
	}
	if a.pool.name == "control" {
		a.pool = &pools[1]
	}
	if c.odds(.15) && len(a.pool.types) > 1 {
		a.cpu, a.mem = a.cpu*2, a.mem*2
	}
	if a.pool.arch != "" || a.pool.name == "base" && c.odds(.3) {
		a.arch = "arm64"
	}
	tolerate, selector := []any{}, map[string]any{}
	if a.pool.taint != "" {
		key, value := cut(a.pool.taint)
		t := object{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
		if c.odds(.3) {
			t = object{"key": key, "operator": "Exists"}
		}
		tolerate = append(tolerate, t)
		selector["company.example/pool"] = a.pool.name
	}
	if a.pool.system == "windows" {
		selector["kubernetes.io/os"] = "windows"
	} else if c.Cloud == "eks" && (a.pool.name == "base" || a.pool.name == "graviton") {
		selector["kubernetes.io/arch"] = a.arch // the pools have both
	}
	if a.pool.types[0].gpus > 0 {
		a.gpus, a.replicas = 1, min(a.replicas, 2)
	}
	affinity, anti := object{}, object{}
	labels := object{"matchLabels": object{"app": a.name}}
	switch draw := c.rng.Float64(); {
	case draw < .12:
		a.alone = true
		anti["requiredDuringSchedulingIgnoredDuringExecution"] = []any{object{"labelSelector": labels, "topologyKey": "kubernetes.io/hostname"}}
	case draw < .15:
		a.perZone, a.replicas = true, min(a.replicas, 2)
		anti["requiredDuringSchedulingIgnoredDuringExecution"] = []any{object{"labelSelector": object{"matchExpressions": []any{object{"key": "app", "operator": "In", "values": []any{a.name}}}}, "topologyKey": "topology.kubernetes.io/zone"}}
	case draw < .30:
		a.zoneSkew = oneOf(c, 1, 1, 2)
		a.spec["topologySpreadConstraints"] = []any{
			object{"maxSkew": a.zoneSkew, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels},
			object{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": labels},
		}
	case draw < .45:
		anti["preferredDuringSchedulingIgnoredDuringExecution"] = []any{object{"weight": 100, "podAffinityTerm": object{"labelSelector": labels, "topologyKey": "kubernetes.io/hostname"}}}
	case draw < .47 && n > 10:
		a.avoid = fmt.Sprintf("cache-%d", n-10)
		anti["requiredDuringSchedulingIgnoredDuringExecution"] = []any{object{"labelSelector": object{"matchLabels": object{"app": a.avoid}}, "topologyKey": "kubernetes.io/hostname", "namespaces": []any{teams[(n-10)%len(teams)]}}}
	case draw < .49:
		a.port = 9000 + n%40
		a.alone = true // the port makes it so
	}
	if len(anti) > 0 {
		affinity["podAntiAffinity"] = anti
	}
	if a.pool.name == "base" || a.pool.name == "user" || a.pool.name == "default-pool" {
		if c.odds(.1) { // a zone of its own
			zone := oneOf(c, places[c.Cloud]...)
			affinity["nodeAffinity"] = object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": []any{object{"matchExpressions": []any{
				object{"key": "topology.kubernetes.io/zone", "operator": oneOf(c, "In", "NotIn"), "values": []any{zone}},
			}}}}}
		}
	}
	switch draw := c.rng.Float64(); {
	case draw < .12:
		a.kind, a.claims = "StatefulSet", c.odds(.7)
	case draw < .18:
		a.kind, a.replicas = "Job", min(a.replicas, 4)
	case draw < .20:
		a.kind = "Rollout" // of another controller
	}
	switch {
	case a.claims:
		a.spec["volumes"] = []any{object{"name": "data", "persistentVolumeClaim": object{"claimName": "data-" + a.name}}}
	case c.odds(.1):
		a.spec["volumes"] = []any{object{"name": "tmp", "emptyDir": object{}}}
	default:
		a.spec["volumes"] = []any{object{"name": "settings", "configMap": object{"name": a.name}}, object{"name": "token", "projected": object{"sources": []any{}}}}
	}
	if c.odds(.05) {
		a.init = a.cpu * 2
		a.spec["initContainers"] = []any{object{"name": "migrate", "image": "i", "resources": object{"requests": object{"cpu": fmt.Sprintf("%dm", a.init), "memory": "64Mi"}}}}
	}
	if len(affinity) > 0 {
		a.spec["affinity"] = affinity
	}
	if len(selector) > 0 {
		a.spec["nodeSelector"] = selector
	}
	a.spec["tolerations"] = append(tolerate, object{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
	return a
}

// place puts a pod of an app on a node of its pool; nil = there is no room. It mostly prefers nodes with more room, as
// kube-scheduler does.
func (c *cluster) place(a *app) *node {
	fewest, inZone := 1<<30, map[string]int{}
	zones := c.zonesOf(a)
	for _, n := range a.on {
		inZone[n.zone]++
	}
	for _, z := range zones {
		fewest = min(fewest, inZone[z])
	}
	var best *node
	for tries, seen := 0, 0; tries < 60*len(poolsOf[c.Cloud]) && seen < 4; tries++ {
		n := c.nodes[c.rng.IntN(len(c.nodes))]
		switch {
		case n.pool != a.pool || !c.allows(a, n):
			continue
		case n.cpu < max(a.cpu, a.init) || n.mem < a.mem || n.slots < 1 || n.gpus < a.gpus || a.port > 0 && n.ports[a.port],
			a.alone && n.apps[a.name] > 0, a.perZone && inZone[n.zone] > 0, a.avoid != "" && n.apps[a.avoid] > 0, n.apps["not:"+a.name] > 0,
			a.zoneSkew > 0 && inZone[n.zone]+1-fewest > a.zoneSkew:
			continue
		}
		if seen++; best == nil || n.cpu > best.cpu {
			best = n
		}
	}
	if best != nil {
		c.take(a, best)
	}
	return best
}

func (c *cluster) take(a *app, n *node) {
	n.cpu, n.mem, n.slots, n.gpus = n.cpu-max(a.cpu, a.init), n.mem-a.mem, n.slots-1, n.gpus-a.gpus
	if a.port > 0 {
		n.ports[a.port] = true
	}
	n.apps[a.name]++
	if a.avoid != "" {
		n.apps["not:"+a.avoid]++
	}
}

// allows reports whether the labels of a node are those that an app asks for.
func (c *cluster) allows(a *app, n *node) bool {
	labels := n.object["metadata"].(object)["labels"].(map[string]any)
	selector, _ := a.spec["nodeSelector"].(map[string]any)
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	affinity, _ := a.spec["affinity"].(object)
	if of, ok := affinity["nodeAffinity"].(object); ok {
		e := of["requiredDuringSchedulingIgnoredDuringExecution"].(object)["nodeSelectorTerms"].([]any)[0].(object)["matchExpressions"].([]any)[0].(object)
		if (e["values"].([]any)[0] == n.zone) != (e["operator"] == "In") {
			return false
		}
	}
	return true
}

// zonesOf are the zones of the nodes that an app may use by their labels: taints do not count.
func (c *cluster) zonesOf(a *app) (zones []string) {
	seen := map[string]bool{}
	for _, n := range c.nodes {
		if !seen[n.zone] && c.allows(a, n) {
			seen[n.zone] = true
			zones = append(zones, n.zone)
		}
	}
	return zones
}

// scaleDown removes pods of some workloads, as an evening does: the nodes are left half empty.
func (c *cluster) scaleDown(a *app) {
	if len(a.on) < 2 || c.odds(.6) {
		return
	}
	gone := len(a.on) * c.rng.IntN(60) / 100
	for _, n := range a.on[:gone] {
		n.cpu, n.mem, n.slots, n.gpus = n.cpu+max(a.cpu, a.init), n.mem+a.mem, n.slots+1, n.gpus+a.gpus
		n.apps[a.name]--
		if a.port > 0 {
			delete(n.ports, a.port)
		}
		if a.avoid != "" {
			n.apps["not:"+a.avoid]--
		}
	}
	a.on = a.on[gone:]
}
