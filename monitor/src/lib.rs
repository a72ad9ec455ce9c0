//! Host process of one pod.
