/* Simulated drivers: udmabuf, a dma-heap, a DRM card with dumb buffers and PRIME, and the dma-bufs they export.
 *
 * There is no such hardware where these tests run. The simulation knows the ioctls by number and every field by its
 * offset, as the kernel's headers define them, independently of the structures in native/; a call that breaks a rule
 * is answered as the kernel answers it and remembered as a complaint. Memory behind a dma-buf is a memfd. */
#ifndef ZC_FAKE_DRIVERS_H
#define ZC_FAKE_DRIVERS_H

/* Each gives a descriptor of a simulated device, which the caller closes. */
int sim_udmabuf(void);
int sim_heap(void);
int sim_card(void);

enum sim_fault {
    SIM_SOUND,
    SIM_SMALLER,      /* CREATE_DUMB gives less than was asked for */
    SIM_OTHER_OBJECT, /* an import is exported again as another object */
    SIM_BUSY,         /* the first DMA_BUF_IOCTL_SYNC says EAGAIN */
};
void sim_break(enum sim_fault fault);

/* The first rule that a call broke since it was asked last; NULL for none. */
const char *sim_complaint(void);
/* DMA_BUF_IOCTL_SYNC so far: how many begins and ends. */
int sim_begun(void);
int sim_ended(void);
/* Lets a descriptor be seen as a simulated dma-buf. */
void sim_dmabuf(int fd);

/* For simulated devices of other drivers (fake_devices.c). A GEM object of `bytes`: its handle. */
unsigned sim_object(unsigned long bytes);
/* Whether the handle is open, and its size. */
int sim_holds(unsigned handle, unsigned long *bytes);
/* GEM_CLOSE and PRIME; -ENOTTY, with a complaint, for any other number. */
int sim_gem(unsigned long request, void *argument);
/* Remembers a broken rule; -error. */
int sim_refuse(int error, const char *rule);

#endif
