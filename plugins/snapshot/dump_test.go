package snapshot

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	nodeText = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}`
	podText  = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "shop", "uid": "p1",
		"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "r1", "controller": true}], "labels": {"pod-template-hash": "5d"}},
		"spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}, "status": {"phase": "Running"}}`
	endedText    = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "done", "namespace": "shop"}, "status": {"phase": "Succeeded"}}`
	mapText      = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "shop"}}`
	podUseText   = `{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata": {"name": "web-1", "namespace": "shop"}, "containers": [{"name": "c", "usage": {"cpu": "123456789n", "memory": "65536Ki"}}, {"name": "d", "usage": {"cpu": "1", "memory": "1Mi"}}]}`
	nodeUseText  = `{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": "n1"}, "usage": {"cpu": "1500m", "memory": "2Gi"}}`
	budgetText   = `{"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "shop"}, "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}`
	scalerText   = `{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "shop"}, "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9, "targetCPUUtilizationPercentage": 70}}`
	deployedText = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "d1"}, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}}`
)

// listText returns objects as kubectl writes several.
func listText(objects ...string) string {
	return `{"apiVersion": "v1", "items": [` + strings.Join(objects, ", ") + `], "kind": "List", "metadata": {"resourceVersion": ""}}`
}

// dumps writes texts to files.
func dumps(t *testing.T, texts ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("dump-%d", i)))
		require.NoError(t, os.WriteFile(paths[i], []byte(text), 0o600))
	}
	return paths
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}

func TestReadDumps(t *testing.T) {
	all := []string{nodeText, podText, endedText, mapText, podUseText, nodeUseText, budgetText, scalerText, deployedText, mapText}
	asYAML, err := yaml.JSONToYAML([]byte(listText(all...)))
	require.NoError(t, err)
	utf := []byte{0xff, 0xfe} // what PowerShell makes of it
	for _, unit := range utf16.Encode([]rune(listText(all...))) {
		utf = append(utf, byte(unit), byte(unit>>8))
	}
	for name, texts := range map[string][]string{
		"one list":         {listText(all...)},
		"gzip":             {packed(t, "\n "+listText(all...))},
		"several files":    {listText(all[:3]...), listText(all[3:]...)},
		"single objects":   all,
		"one after other":  {strings.Join(all, "\n")},
		"lists of a kind":  {`{"kind": "NodeList", "apiVersion": "v1", "items": [` + strings.Replace(nodeText, `"kind": "Node", `, "", 1) + `]}`, listText(all[1:]...)},
		"YAML":             {string(asYAML)},
		"YAML documents":   {"# comment\n---\n" + strings.Join(all, "\n---\n") + "\n---\n"},
		"UTF-16":           {string(utf)},
		"byte order mark":  {"\ufeff" + listText(all...)},
		"a list in a list": {listText(all[0]), `{"kind": "List", "apiVersion": "v1", "items": null}`, listText(all[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ReadDumps(dumps(t, texts...))
			require.NoError(t, err)
			require.Len(t, p.Nodes, 1)
			require.Equal(t, int64(4), p.Nodes[0].Status.Allocatable.Cpu().Value())
			require.Len(t, p.Pods, 1, "none that has ended")
			require.Equal(t, "web-1", p.Pods[0].Name)
			require.Equal(t, int32(9), p.Declared.Autoscalers[0].Spec.MaxReplicas)
			require.Equal(t, int32(3), *p.Declared.Deployments[0].Spec.Replicas)
			require.Equal(t, int32(1), p.Budgets[0].Status.DisruptionsAllowed)
			require.Equal(t, map[string]Use{"shop/web-1": {1124, 65 << 20}}, p.Use)
			require.Equal(t, []string{"objects of kinds that placement does not depend on are ignored: ConfigMap 2, NodeMetrics 1"}, p.Notes)
			require.Equal(t, []Missing{{"ReplicaSet", "the workload of its pods is taken from their names and labels"}}, p.Missing)
		})
	}
}

// A dump that lacks kinds names them where they count.
func TestReadDumpsMissing(t *testing.T) {
	kinds := func(texts ...string) (list []string) {
		p, err := ReadDumps(dumps(t, texts...))
		require.NoError(t, err)
		for _, m := range p.Missing {
			require.NotEmpty(t, m.Means)
			list = append(list, m.Kind)
		}
		return list
	}
	require.Equal(t, []string{"Deployment", "ReplicaSet", "HorizontalPodAutoscaler", "PodDisruptionBudget", "PodMetrics"}, kinds(nodeText, podText))
	require.Equal(t, []string{"ReplicaSet"}, kinds(listText(nodeText, podText, deployedText, scalerText, budgetText, podUseText)))
	require.Equal(t, []string{"Pod", "HorizontalPodAutoscaler", "PodDisruptionBudget", "PodMetrics"}, kinds(nodeText))

	p, err := ReadDumps(dumps(t, listText(nodeText, podText), strings.Replace(podText, "n1", "n2", 1)))
	require.NoError(t, err)
	require.Equal(t, "n2", p.Pods[0].Spec.NodeName, "the last one counts")
	require.Contains(t, p.Notes, "objects that are in the dumps more than once: 1; the last of each counts")
}

func TestReadDumpsErrors(t *testing.T) {
	broken := func(old, instead string) string { return listText(nodeText, strings.Replace(podText, old, instead, 1)) }
	for _, of := range []struct{ text, want string }{
		{"", "the file is empty"},
		{listText(podText), "there are no nodes: want what this writes: kubectl get nodes,pods,"},
		{listText(), "there are no nodes"},
		{broken(`"cpu": "1"`, `"cpu": "one"`), `Pod shop/web-1: spec.containers[0].resources.requests.cpu: quantities must match the regular expression`},
		{broken(`"nodeName": "n1"`, `"nodeName": 7`), `Pod shop/web-1: spec.nodeName: json: cannot unmarshal number into Go struct field`},
		{broken(`"phase": "Running"`, `"startTime": "yesterday"`), `Pod shop/web-1: status.startTime: parsing time "yesterday"`},
		{broken(`"name": "web-1", `, ``), `Pod shop/: metadata.name is missing`},
		{broken(`"kind": "Pod", `, ``), `an object has no kind`},
		{listText(nodeText, podText)[:300], "the file ends within an object"},
		{packed(t, listText(nodeText, podText))[:90], "the file ends within an object"},
		{"[1, 2]", "want an object, as kubectl writes with -o json, not ["},
		{`{"items": 5, "kind": "List"}`, "items: want a list, not 5"},
		{`{"kind": "List", "items": [5]}`, "cannot unmarshal number"},
		{"error: the server doesn't have a resource type \"pods.metrics.k8s.io\"", "an object has no kind: want what kubectl writes with -o json"},
		{"NAME   STATUS\nn1   Ready\n", "want an object, as kubectl writes with -o json, not "},
		{"kind: Node\n\tmetadata: x", "document 1: "},
		{`{"kind": "Status", "apiVersion": "v1", "message": "nodes is forbidden"}`, "it has the error of an API server in place of objects: nodes is forbidden"},
		{listText(strings.Replace(nodeText, `"uid"`, `"labels": {"l": "`+strings.Repeat("x", mostObject*2)+`"}, "uid"`, 1)), "an object is larger than 16 MiB"},
	} {
		paths := dumps(t, of.text)
		_, err := ReadDumps(paths)
		require.ErrorContains(t, err, of.want, "%.200s", of.text)
		require.ErrorContains(t, err, paths[0])
	}
	_, err := ReadDumps([]string{"none.json"})
	require.EqualError(t, err, "none.json: no such file or directory")
}

// FuzzReadDumps reads any bytes, and makes a trace of those that are a cluster.
func FuzzReadDumps(f *testing.F) {
	for _, text := range []string{nodeText, podText, listText(nodeText, podText, podUseText, nodeUseText, budgetText, scalerText, deployedText), "kind: Node\nmetadata: {name: n}\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := newDump()
		if d.read(bytes.NewReader(text)) != nil {
			return
		}
		p := d.picture()
		r := NewRecorder("", noon)
		if err := r.Record(p, noon); err != nil {
			return
		}
		_, _, _ = r.Trace("fuzz", "open")
	})
}

// Use of another hour than that of the nodes is left out, and the notes name it.
func TestUseOfAnotherTime(t *testing.T) {
	beating := strings.Replace(nodeText, `"status": {`, `"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-24T14:30:00Z"}], `, 1)
	at := func(name, time string) string {
		return strings.NewReplacer(`"web-1", "namespace": "shop"}`, `"`+name+`", "namespace": "shop"}, "timestamp": "`+time+`"`).Replace(podUseText)
	}
	p, err := ReadDumps(dumps(t, beating, podText, at("web-1", "2026-11-24T14:29:10Z")))
	require.NoError(t, err)
	require.Len(t, p.Use, 1)
	require.Empty(t, p.Notes)
	p, err = ReadDumps(dumps(t, beating, podText, at("web-1", "2026-11-24T14:29:10Z"), at("web-2", "2026-11-23T12:30:00Z"), at("web-3", "2026-11-24T16:00:00Z")))
	require.NoError(t, err)
	require.Len(t, p.Use, 1)
	require.Equal(t, []string{"the use of 2 pods is left out: it was measured at 2026-11-23T12:30:00Z, and the last sign of life of a node is of 2026-11-24T14:30:00Z"}, p.Notes)
	require.NotContains(t, fmt.Sprint(p.Missing), "PodMetrics")
	p, err = ReadDumps(dumps(t, beating, podText, at("web-1", "2026-11-23T14:29:10Z")))
	require.NoError(t, err)
	require.Nil(t, p.Use)
	require.Contains(t, fmt.Sprint(p.Missing), "PodMetrics of this time: none read: the use of pods is not known")
	p, err = ReadDumps(dumps(t, nodeText, podText, at("web-1", "2026-11-23T14:29:10Z")))
	require.NoError(t, err)
	require.Len(t, p.Use, 1, "the time of the nodes is not known")
}

func TestUseIsBounded(t *testing.T) {
	require.Equal(t, Use{}, useOf(amounts("cpu", "-5")))
	require.Equal(t, int64(1), useOf(v1.ResourceList{"cpu": amounts("cpu", "1n")["cpu"]}).MilliCPU)
	require.Positive(t, useOf(amounts("memory", "1e9999")).MemoryBytes)
}

// A list of pods without any is of a cluster without pods; a list of any kind does not tell.
func TestPodsThatAreNone(t *testing.T) {
	missing := func(text string) bool {
		p, err := ReadDumps(dumps(t, nodeText, text))
		require.NoError(t, err)
		return slices.ContainsFunc(p.Missing, func(m Missing) bool { return m.Kind == "Pod" })
	}
	require.False(t, missing(`{"kind": "PodList", "apiVersion": "v1", "items": []}`))
	require.False(t, missing(endedText))
	require.True(t, missing(`{"kind": "List", "apiVersion": "v1", "items": []}`))
}
