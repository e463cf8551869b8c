package manifest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every object of a folder is counted once: planned, used, without pods, left out, not known or refused.
func TestSurvey(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": `apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: i}]}
---
# nothing
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: much}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: a-}
spec: {template: {spec: {containers: [{name: c, image: i}], restartPolicy: Never}}}
`,
		"b/list.yml": `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
- {apiVersion: v1, kind: Pod, metadata: {name: Upper}, spec: {containers: [{name: c, image: i}]}}
- {apiVersion: example.org/v1, kind: Thing, metadata: {name: t}}
- {apiVersion: batch/v1, kind: CronJob, metadata: {name: one}}
- {apiVersion: v1, kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
- {kind: Pod}
`,
		"chart.yaml":   "kind: {{ .Kind }}\n",
		"values.json":  `{"replicas": 3}`,
		"readme.txt":   "not read",
		"b/empty.yaml": "# nothing\n",
	} {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var v Survey
	require.NoError(t, v.Add(folder))
	require.Equal(t, map[string]*Kind{
		"Pod": {Planned: 1, Refused: 2}, "Job.batch": {Planned: 1}, "ConfigMap": {NoPods: 1}, "Thing.example.org": {NotKnown: 1},
		"CronJob.batch": {LeftOut: 1}, "Node": {Used: 1}, NoObject: {Refused: 3},
	}, v.Kinds)
	require.Equal(t, []int{5, 5, 11}, []int{v.Files, v.Documents, v.Objects})
	sum := 0
	for _, n := range v.Refused {
		sum += n
	}
	require.Equal(t, 5, sum, v.Refused)
	require.ErrorContains(t, v.Add(filepath.Join(folder, "none")), "no such file")
}
