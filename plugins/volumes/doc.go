// Package volumes makes constraints of the volumes of pods: node affinity, and resources of pods and nodes. The volumes are
// bound ones of drivers and of network file systems.
package volumes
