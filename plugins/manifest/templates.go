package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// A podTemplate is a template that was found in an object of a kind that Sigma has no type of.
type podTemplate struct {
	field string // spec.template
	value map[string]any
	pods  int64
	of    string // the item or field of the object's spec that has the template and the number; "" = the spec itself
	doubt string // why the number of pods is unknown; "" if it is known
}

// A step leads from an object to one below it.
type step struct {
	object map[string]any
	key    string // the field of the next, or of the list that has it
	label  string // that field, or the name or the position of the item
}

// neutral are whole numbers next to a template that do not multiply pods, in addition to those in seconds.
var neutral = map[string]bool{
	"backoffLimit": true, "backoffLimitPerIndex": true, "maxFailedIndexes": true, "maxRetry": true, "minAvailable": true, "priority": true,
	"revisionHistoryLimit": true, "slotsPerWorker": true,
}

// findTemplates lists the pod templates of an object: the objects in it with a spec that has containers.
func findTemplates(object map[string]any, kind schema.GroupKind) (found []podTemplate) {
	holders := map[string]int{} // by the field that has the template
	var walk func(value any, field string, above []step)
	walk = func(value any, field string, above []step) {
		switch v := value.(type) {
		case []any:
			last := len(above) - 1
			for i, item := range v {
				at := slices.Clone(above)
				at[last].label = strconv.Itoa(i)
				if of, ok := item.(map[string]any); ok {
					if name, ok := of["name"].(string); ok && name != "" {
						at[last].label = name
					}
				}
				walk(item, fmt.Sprintf("%s[%d]", field, i), at)
			}
		case map[string]any:
			spec, _ := v["spec"].(map[string]any)
			switch {
			case hasContainers(spec) && len(above) > 0:
				t := podTemplate{field: field, value: v}
				t.doubt = t.count(above, kind)
				holders[holder(field)]++
				found = append(found, t)
				return
			case hasContainers(v):
				found = append(found, podTemplate{field: field, doubt: "containers of an unknown number of pods", value: v})
				return
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if len(above) == 0 && (key == "metadata" || key == "status") {
					continue
				}
				walk(v[key], strings.TrimPrefix(field+"."+key, "."), append(slices.Clone(above), step{object: v, key: key, label: key}))
			}
		}
	}
	walk(object, "", nil)
	for i := range found {
		if t := &found[i]; t.doubt == "" && holders[holder(t.field)] > 1 {
			t.doubt = "a number of pods for more than one template"
		}
	}
	return found
}

func holder(field string) string { return field[:max(strings.LastIndexByte(field, '.'), 0)] }

// hasContainers reports whether a value has a list of containers, as the specification of a pod has.
func hasContainers(spec map[string]any) bool {
	list, _ := spec["containers"].([]any)
	return len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		c, _ := item.(map[string]any)
		_, named := c["name"].(string)
		_, image := c["image"].(string)
		return !named && !image
	})
}

// count sets the number of pods that an object creates by the template below some steps, or returns why it is unknown.
// It is known if the template is in the object's spec, or in an item or a field of that, next to a number of
// replicas; the template of a Job there counts as often as parallelism and completions allow. No other
// whole number may be on the way, since it may multiply.
func (t *podTemplate) count(above []step, kind schema.GroupKind) (doubt string) {
	at := len(above) - 1 // the step that has the template
	number := func(name string) (n int64, given bool) {
		value, given := above[at].object[name]
		n, ok := value.(int64)
		if given && (!ok || n < 0 || n > mostPods) {
			doubt = fmt.Sprintf("%s is %v", name, value)
		}
		return n, given
	}
	t.pods = 1
	if at >= 3 && above[at-1].key == "spec" { // of a Job, whose metadata and spec above[at-2] has
		parallelism, some := number("parallelism")
		completions, bounded := number("completions")
		if some || bounded || ones[kind] {
			if some {
				t.pods = parallelism
			}
			if bounded {
				t.pods = min(t.pods, completions)
			}
			at -= 2
		}
	}
	replicas, given := number("replicas")
	if given {
		t.pods *= replicas
	}
	if at > 1 {
		t.of = above[at-1].label
	}
	inTemplate := func(s step) bool { return s.key == "spec" || strings.Contains(strings.ToLower(s.key), "template") }
	switch {
	case doubt != "":
		return doubt
	case strings.Contains(kind.Kind, "Template"):
		return "of a template for other objects"
	case incomplete(t.value):
		return "its containers have no image"
	case !given && !ones[kind]:
		return "without a number of replicas"
	case strings.HasSuffix(t.field, "]"):
		return "in a list"
	case at < 1 || above[0].key != "spec" || slices.ContainsFunc(above[1:at], inTemplate) || at > 3 || at == 3 && !onlyObjects(above[2].object):
		return "too deep to know the number"
	}
	for _, name := range []string{"containers", "image", "resource", "resources"} {
		if above[at].object[name] != nil {
			return "completed by " + name
		}
	}
	for i, s := range above {
		for _, name := range slices.Sorted(maps.Keys(s.object)) {
			_, whole := s.object[name].(int64)
			counted := i == at && name == "replicas" || i == at+2 && (name == "parallelism" || name == "completions")
			if whole && !counted && !neutral[name] && !strings.HasSuffix(name, "Seconds") {
				return fmt.Sprintf("beside %s %d", name, s.object[name])
			}
		}
	}
	return ""
}

// onlyObjects reports whether all fields of an object are objects: it is a map of them.
func onlyObjects(object map[string]any) bool {
	for _, value := range object {
		if _, ok := value.(map[string]any); !ok {
			return false
		}
	}
	return true
}

// incomplete reports whether a template is only a part of a pod: an operator adds the image, and then maybe requests.
func incomplete(template map[string]any) bool {
	list, _ := template["spec"].(map[string]any)["containers"].([]any)
	return slices.ContainsFunc(list, func(item any) bool {
		image, _ := item.(map[string]any)["image"].(string)
		return image == ""
	})
}

// addUnknown adds an object of a kind that Sigma has no type of: pods of its templates, if their number is known.
func (s *set) addUnknown(at string, text []byte, e *envelope, kind schema.GroupKind) {
	var object map[string]any
	_ = utiljson.Unmarshal(text, &object) // was read once
	s.names[s.nameOf(e)] = true
	found := findTemplates(object, kind)
	pods, doubts := []string{}, []string{}
	for _, t := range found {
		if t.doubt == "" {
			if err := s.addTemplate(at, e, t, len(found) > 1); err != nil {
				t.doubt = err.Error()
			}
		}
		if t.doubt == "" {
			pods = append(pods, fmt.Sprintf("%d of %s", t.pods, t.field))
		} else {
			doubts = append(doubts, fmt.Sprintf("%s (%s)", t.field, t.doubt))
		}
	}
	name := fmt.Sprintf("%s %s of %s", e.Kind, e.Metadata.Name, e.APIVersion)
	if len(pods) > 0 {
		s.note("%s: %s: pods are planned by its templates: %s", at, name, strings.Join(pods, ", "))
	}
	if len(doubts) > 0 {
		s.note("%s: %s: it is not known how many pods it makes of %s", at, name, strings.Join(doubts, ", "))
	}
	if len(found) > 0 && len(doubts) == 0 {
		s.tally.planned[kind]++
	} else {
		s.tally.notKnown[kind]++
	}
}

// addTemplate adds the pods of a template, under the object's name, or one for each template if there are several.
func (s *set) addTemplate(at string, e *envelope, t podTemplate, several bool) error {
	text, err := json.Marshal(t.value)
	if err != nil {
		return err
	}
	var template v1.PodTemplateSpec
	if err := json.Unmarshal(text, &template); err != nil {
		if bad := badQuantity(t.value, t.field, false); bad != nil {
			return bad
		}
		return err
	}
	if t.pods > mostPods {
		return fmt.Errorf("%d pods: at most %d", t.pods, mostPods)
	}
	own := *e
	if several && t.of != "" {
		own.Metadata.Name += "-" + strings.ToLower(t.of)
	}
	if err := nameProblem(&own); err != nil {
		return err
	}
	return s.addPods(at, &own, t.field, "replicas", int32(t.pods), &template)
}
