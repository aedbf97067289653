# SPDX-License-Identifier: Apache-2.0
# ncclConfig_t from a dictionary of what is set.

cdef class _Config:
    # Owns the texts that the C structure points to. NCCL copies net_name but keeps the pointer to the communicator's
    # name, and hands it on to children that inherit the configuration: the handle keeps this object as long as it lives.
    cdef nccl_config config
    cdef bytes net_name
    cdef bytes comm_name

    def __cinit__(self, dict fields not None):
        cdef nccl_config* c = &self.config
        c.size = sizeof(nccl_config)
        c.magic = NCCL_CONFIG_MAGIC
        c.version = NCCL_CONFIG_VERSION
        c.blocking = fields.get("blocking", INT_MIN)
        c.cga_cluster_size = fields.get("cga_cluster_size", INT_MIN)
        c.min_ctas = fields.get("min_ctas", INT_MIN)
        c.max_ctas = fields.get("max_ctas", INT_MIN)
        c.split_share = fields.get("split_share", INT_MIN)
        c.traffic_class = fields.get("traffic_class", INT_MIN)
        c.collnet_enable = fields.get("collnet_enable", INT_MIN)
        c.cta_policy = fields.get("cta_policy", INT_MIN)
        c.shrink_share = fields.get("shrink_share", INT_MIN)
        c.nvls_ctas = fields.get("nvls_ctas", INT_MIN)
        c.channels_per_net_peer = fields.get("channels_per_net_peer", INT_MIN)
        c.nvlink_centric_sched = fields.get("nvlink_centric_sched", INT_MIN)
        c.graph_usage_mode = fields.get("graph_usage_mode", INT_MIN)
        c.rma_contexts = fields.get("rma_contexts", INT_MIN)
        c.net_name = NULL
        c.comm_name = NULL
        if "net_name" in fields:
            self.net_name = fields["net_name"].encode()
            c.net_name = self.net_name
        if "name" in fields:
            self.comm_name = fields["name"].encode()
            c.comm_name = self.comm_name
