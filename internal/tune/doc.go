// Package tune learns a placement policy from the recorded history of a cluster and judges
// it on later days, next to every rule that costs nothing. It splits the history by time,
// trains on the first part, chooses on the second, and reports on the third, once, whether
// the learned policy is worth it. It joins [train], [cerebro] and the rules; swarm stays
// behind train.
package tune
