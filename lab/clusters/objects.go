package clusters

import (
	"fmt"
	"maps"
)

// makeDaemons puts a pod of a DaemonSet on each node.
func (c *cluster) makeDaemons(name string, cpu, mem int64) {
	set := c.meta("kube-system", name, nil)
	c.add("DaemonSet", object{"metadata": set, "spec": object{"selector": object{"matchLabels": object{"app": name}}}})
	a := &app{namespace: "kube-system", name: name, cpu: cpu, mem: mem, spec: object{"tolerations": []any{object{"operator": "Exists"}}}}
	for _, n := range c.nodes {
		if n.pool.system == "windows" {
			continue
		}
		spec := maps.Clone(a.spec)
		spec["affinity"] = object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": []any{object{
			"matchFields": []any{object{"key": "metadata.name", "operator": "In", "values": []any{n.name}}},
		}}}}}
		c.take(a, n)
		c.makePod(&app{namespace: a.namespace, name: name, cpu: cpu, mem: mem, spec: spec}, c.named(name), n, "DaemonSet", set)
	}
}

func owned(kind string, by object) []any {
	version := versions[kind]
	if version == "" {
		version = "argoproj.io/v1alpha1"
	}
	return []any{object{"apiVersion": version, "kind": kind, "name": by["name"], "uid": by["uid"], "controller": true}}
}

// makePod adds a running pod; without a node it waits.
func (c *cluster) makePod(a *app, name string, n *node, kind string, by object) object {
	meta := c.meta(a.namespace, name, map[string]any{"app": a.name})
	if by != nil {
		meta["ownerReferences"] = owned(kind, by)
	}
	requests := object{"cpu": fmt.Sprintf("%dm", a.cpu), "memory": fmt.Sprintf("%dMi", a.mem)}
	if a.cpu%1000 == 0 && c.odds(.5) {
		requests["cpu"] = fmt.Sprint(a.cpu / 1000)
	}
	if a.gpus > 0 {
		requests["nvidia.com/gpu"] = fmt.Sprint(a.gpus)
	}
	main := object{"name": "main", "image": "registry.example/" + a.name + ":1", "resources": object{"requests": requests}}
	if a.gpus > 0 {
		main["resources"].(object)["limits"] = object{"nvidia.com/gpu": fmt.Sprint(a.gpus)}
	}
	if a.port > 0 {
		main["ports"] = []any{object{"containerPort": a.port, "hostPort": a.port, "protocol": "TCP"}}
	}
	containers := []any{main}
	if a.cpu > 200 && c.odds(.2) { // split
		requests["cpu"] = fmt.Sprintf("%dm", a.cpu-100)
		containers = append(containers, object{"name": "proxy", "image": "proxy", "resources": object{"requests": object{"cpu": "0.1"}}})
	}
	spec := maps.Clone(a.spec)
	spec["containers"], spec["restartPolicy"], spec["schedulerName"] = containers, "Always", "default-scheduler"
	if a.kind == "Job" {
		spec["restartPolicy"] = "OnFailure"
	}
	status := object{"phase": "Pending", "conditions": []any{object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}}}
	if n != nil {
		spec["nodeName"] = n.name
		status = object{"phase": "Running", "startTime": meta["creationTimestamp"], "conditions": []any{object{"type": "PodScheduled", "status": "True"}, object{"type": "Ready", "status": "True"}}}
		if a.cpu > 0 {
			c.serve = append(c.serve, served{a.namespace, name, a.cpu, a.mem})
		}
	}
	return c.add("Pod", object{"metadata": meta, "spec": spec, "status": status})
}

// declare adds the objects of an app, its pods, and for some of them a budget.
func (c *cluster) declare(a *app) {
	top := c.meta(a.namespace, a.name, nil)
	owner, kind, replicas := top, a.kind, len(a.on)
	selector := object{"matchLabels": object{"app": a.name}}
	template := object{"metadata": object{"labels": object{"app": a.name}}, "spec": maps.Clone(a.spec)}
	spec := object{"replicas": replicas, "selector": selector, "template": template}
	switch a.kind {
	case "Deployment", "Rollout":
		if a.kind == "Deployment" {
			c.add("Deployment", object{"metadata": top, "spec": spec})
		}
		owner, kind = c.meta(a.namespace, a.name+"-"+c.id(9), nil), "ReplicaSet"
		owner["ownerReferences"] = owned(a.kind, top)
		c.add("ReplicaSet", object{"metadata": owner, "spec": spec})
	case "StatefulSet":
		c.add("StatefulSet", object{"metadata": top, "spec": spec})
	case "Job":
		job := object{"metadata": top, "spec": object{"template": template, "parallelism": replicas}}
		if c.odds(.5) {
			cron := c.meta(a.namespace, "every-"+a.name, nil)
			top["ownerReferences"] = owned("CronJob", cron)
			c.add("CronJob", object{"metadata": cron, "spec": object{"schedule": "0 * * * *", "jobTemplate": object{"spec": object{"template": template}}}})
		}
		c.add("Job", job)
	}
	for i, n := range a.on {
		name := c.named(owner["name"].(string))
		if a.kind == "StatefulSet" {
			name = fmt.Sprintf("%s-%d", a.name, i)
		}
		c.makePod(a, name, n, kind, owner)
	}
	if replicas < 2 || a.kind == "Job" || c.odds(.65) {
		return
	}
	budget, allowed := object{"selector": selector}, 0
	switch c.rng.IntN(4) {
	case 0:
		budget["minAvailable"], allowed = replicas-1, 1
	case 1:
		budget["minAvailable"] = "100%"
	case 2:
		budget["maxUnavailable"], allowed = "25%", (replicas+3)/4
	case 3:
		budget["maxUnavailable"], allowed = 1, 1
	}
	c.add("PodDisruptionBudget", object{"metadata": c.meta(a.namespace, a.name, nil), "spec": budget, "status": object{
		"currentHealthy": replicas, "desiredHealthy": replicas - allowed, "disruptionsAllowed": allowed, "expectedPods": replicas, "observedGeneration": 1,
	}})
}

// makeOdd adds pods that wait, that ended, that leave, that nobody owns, and nodes that pods do not share.
func (c *cluster) makeOdd() {
	large := &app{namespace: "data", name: "crunch", cpu: 400_000, mem: 1 << 20, spec: object{}}
	c.makePod(large, "crunch-0", nil, "", nil)
	c.makePod(&app{namespace: "ml", name: "train", cpu: 1000, mem: 2048, gpus: 64, spec: object{"tolerations": []any{object{"operator": "Exists"}}}}, "train-0", nil, "", nil)
	c.makePod(&app{namespace: "web", name: "lost", cpu: 100, mem: 128, spec: object{"nodeSelector": object{"company.example/pool": "gone"}}}, "lost-0", nil, "", nil)
	if c.Minor >= 30 {
		c.makePod(&app{namespace: "web", name: "gated", cpu: 100, mem: 128, spec: object{"schedulingGates": []any{object{"name": "company.example/quota"}}}}, "gated-0", nil, "", nil)
	}
	for i, phase := range []string{"Succeeded", "Failed"} {
		p := c.makePod(&app{namespace: "data", name: "done", cpu: 100_000, mem: 1 << 18, spec: object{}}, fmt.Sprint("done-", i), c.nodes[i], "", nil)
		p["status"] = object{"phase": phase, "reason": "Evicted"}
		c.serve = c.serve[:len(c.serve)-1]
	}
	for _, n := range c.nodes {
		if n.pool.taint == "" && n.cpu > 400 && n.mem > 300 && n.slots > 1 {
			for _, name := range []string{"shell", "leaving"} {
				a := &app{namespace: "ops", name: name, cpu: 100, mem: 128, spec: object{}}
				c.take(a, n)
				p := c.makePod(a, name, n, "", nil)
				if name == "leaving" {
					p["metadata"].(object)["deletionTimestamp"] = "2026-11-20T10:00:00Z"
				}
			}
			break
		}
	}
	if c.Cloud == "eks" {
		for i := range max(1, c.Nodes/50) {
			c.makeFargate(i)
		}
	}
	if c.Cloud == "aks" {
		c.add("Node", object{
			"metadata": c.meta("", "virtual-node-aci-linux", map[string]any{"type": "virtual-kubelet", "kubernetes.io/os": "linux", "kubernetes.azure.com/role": "agent"}),
			"spec":     object{"taints": []any{object{"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}}},
			"status": object{
				"allocatable": object{"cpu": "10k", "memory": "4Ti", "pods": "5k"}, "capacity": object{"cpu": "10k", "memory": "4Ti", "pods": "5k"},
				"conditions": []any{object{"type": "Ready", "status": "True"}},
			},
		})
	}
}

// makeFargate adds a node that holds one pod.
func (c *cluster) makeFargate(i int) {
	name := fmt.Sprintf("fargate-ip-10-9-0-%d", i)
	c.add("Node", object{
		"metadata": c.meta("", name, map[string]any{"eks.amazonaws.com/compute-type": "fargate", "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": places["eks"][0], "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
		"spec":     object{"taints": []any{object{"key": "eks.amazonaws.com/compute-type", "value": "fargate", "effect": "NoSchedule"}}},
		"status": object{
			"allocatable": object{"cpu": "2", "memory": "3977832Ki", "pods": "1"}, "capacity": object{"cpu": "2", "memory": "3977832Ki", "pods": "1"},
			"conditions": []any{object{"type": "Ready", "status": "True"}},
		},
	})
	set := c.meta("web", fmt.Sprint("serverless-", i), nil)
	c.add("ReplicaSet", object{"metadata": set, "spec": object{"replicas": 1}})
	p := c.makePod(&app{namespace: "web", name: fmt.Sprint("serverless-", i), cpu: 500, mem: 1024, spec: object{}}, fmt.Sprintf("serverless-%d-x", i), &node{name: name}, "ReplicaSet", set)
	p["spec"].(object)["schedulerName"] = "fargate-scheduler"
}

// measure adds the metrics of most pods: they use far less than they request, and some more.
func (c *cluster) measure() {
	for _, s := range c.serve {
		if c.odds(.03) {
			continue
		}
		cpu, mem := float64(s.cpu)*c.rng.ExpFloat64()*.2, float64(s.mem)*(.1+.6*c.rng.Float64())
		c.add("PodMetrics", object{"metadata": object{"namespace": s.namespace, "name": s.name}, "timestamp": "2026-11-20T10:00:00Z", "window": "15s", "containers": []any{
			object{"name": "main", "usage": object{"cpu": fmt.Sprintf("%dn", int64(cpu*1e6)), "memory": fmt.Sprintf("%dKi", int64(mem*1024))}},
		}})
	}
}
